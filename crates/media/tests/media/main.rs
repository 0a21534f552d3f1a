//! Media from the outside: the clip through packets and back, hostile input, and files for browsers.

mod day;
mod end_to_end;
mod hostile;
mod mp4;
mod mp4_boxes;
mod mutated;
mod reading;
mod streams;
mod support;
