//! Reference lists and marking by hand-made headers.
