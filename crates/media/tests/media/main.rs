//! Integration tests of the media crate: loss, clock errors, hostile input, MP4 files.

mod damaged_ts;
mod day;
mod end_to_end;
mod fates;
mod hostile;
mod mp4;
mod mp4_boxes;
mod mutated;
mod mutated_ts;
mod reading;
mod streams;
mod support;
