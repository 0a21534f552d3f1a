//! Media from the outside: the clip through packets and back, hostile input, and files for browsers.

mod end_to_end;
mod hostile;
mod mp4;
mod reading;
mod streams;
mod support;
