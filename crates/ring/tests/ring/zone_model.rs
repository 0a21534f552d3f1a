//! Model test of a packet zone: random operations on buffers and rings, and on plain lists of references in parallel.

use std::collections::{BTreeMap, VecDeque};

use proptest::prelude::*;
use timeous_core::Instant;
use timeous_ring::{Config, Consumer, EnqueueError, FrozenBuffer, PAGE, PacketZone, Producer, create};

use crate::adu;

const RINGS: usize = 3;
const BUFFERS: usize = 4;

#[derive(Clone, Debug)]
enum Op {
    Fill,
    HandOver { ring: usize },
    Copy(usize),
    Drop(usize),
    Thaw(usize),
    Enqueue { ring: usize, handle: usize, from: usize, len: usize },
    Send { ring: usize },
    Rewrite { ring: usize, place: usize },
    EndProducer { ring: usize },
}

fn op() -> impl Strategy<Value = Op> {
    let (ring, handle) = (0..RINGS, 0..8usize);
    prop_oneof![
        4 => Just(Op::Fill),
        1 => ring.clone().prop_map(|ring| Op::HandOver { ring }),
        1 => handle.clone().prop_map(Op::Copy),
        3 => handle.clone().prop_map(Op::Drop),
        1 => handle.clone().prop_map(Op::Thaw),
        8 => (ring.clone(), handle, 0..PAGE, 0..30usize)
            .prop_map(|(ring, handle, from, len)| Op::Enqueue { ring, handle, from, len }),
        6 => ring.clone().prop_map(|ring| Op::Send { ring }),
        2 => (ring.clone(), 0..4usize).prop_map(|(ring, place)| Op::Rewrite { ring, place }),
        1 => ring.prop_map(|ring| Op::EndProducer { ring }),
    ]
}

struct Ring {
    producer: Option<Producer>,
    consumer: Consumer,
    /// Packets of the model: buffer and range.
    queue: VecDeque<(u32, usize, usize)>,
}

fn ring() -> Ring {
    let (producer, consumer) = create(&Config::new(8).buffers(0)).unwrap();
    Ring { producer: Some(producer), consumer, queue: VecDeque::new() }
}

struct Model {
    zone: PacketZone,
    rings: Vec<Ring>,
    handles: Vec<(u32, FrozenBuffer)>,
    /// Contents of the buffers in use, by number in order of their first use.
    contents: BTreeMap<u32, Vec<u8>>,
    next: u32,
}

fn bytes(seed: u32) -> Vec<u8> {
    (0..PAGE as u32).map(|at| (seed.wrapping_mul(37) ^ at.wrapping_mul(11)) as u8).collect()
}

impl Model {
    fn uses(&self, buffer: u32) -> usize {
        let handles = self.handles.iter().filter(|(held, _)| *held == buffer).count();
        handles + self.rings.iter().flat_map(|ring| &ring.queue).filter(|(held, ..)| *held == buffer).count()
    }

    fn in_use(&self) -> usize {
        self.contents.keys().filter(|buffer| self.uses(**buffer) > 0).count()
    }

    fn fill(&mut self) -> Option<FrozenBuffer> {
        let full = self.in_use() == BUFFERS;
        match self.zone.buffer() {
            Ok(mut buffer) => {
                assert!(!full);
                self.next += 1;
                buffer.bytes_mut().copy_from_slice(&bytes(self.next));
                self.contents.insert(self.next, bytes(self.next));
                Some(buffer.freeze())
            }
            Err(error) => {
                assert!(full && error == EnqueueError::ZoneFull);
                None
            }
        }
    }

    fn run(&mut self, op: Op) {
        match op {
            Op::Fill => {
                if let Some(buffer) = self.fill() {
                    self.handles.push((self.next, buffer));
                }
            }
            Op::HandOver { ring } => {
                let Some(buffer) = self.fill() else { return };
                let buffer = buffer.thaw().expect("a single handle");
                let Ring { producer: Some(producer), queue, .. } = &mut self.rings[ring] else { return };
                let full = queue.len() == 7;
                assert_eq!(producer.enqueue_buffer(&adu(0), buffer, 9).is_err(), full, "freed if it is refused");
                if !full {
                    queue.push_back((self.next, 0, 9));
                }
            }
            Op::Copy(handle) => {
                if let Some((buffer, handle)) = self.handles.get(handle) {
                    let copy = (*buffer, handle.clone());
                    self.handles.push(copy);
                }
            }
            Op::Drop(handle) => {
                if handle < self.handles.len() {
                    self.handles.swap_remove(handle);
                }
            }
            Op::Thaw(handle) => {
                let Some(&(buffer, _)) = self.handles.get(handle) else { return };
                let only = self.uses(buffer) == 1;
                match self.handles.swap_remove(handle).1.thaw() {
                    Ok(mut thawed) => {
                        assert!(only);
                        assert_eq!(thawed.bytes_mut(), &self.contents[&buffer][..]);
                        self.next += 1;
                        thawed.bytes_mut().copy_from_slice(&bytes(self.next));
                        self.contents.insert(buffer, bytes(self.next));
                        self.handles.push((buffer, thawed.freeze()));
                    }
                    Err(shared) => {
                        assert!(!only);
                        self.handles.push((buffer, shared));
                    }
                }
            }
            Op::Enqueue { ring, handle, from, len } => {
                let Some((buffer, handle)) = self.handles.get(handle) else { return };
                let Ring { producer: Some(producer), queue, .. } = &mut self.rings[ring] else { return };
                let part = handle.part(from..from + len);
                assert_eq!(part.is_ok(), from + len <= PAGE);
                let result = producer.enqueue_part(&adu(0), handle, from..from + len);
                if queue.len() == 7 {
                    assert_eq!(result, Err(EnqueueError::Full));
                } else if from + len > PAGE {
                    assert!(matches!(result, Err(EnqueueError::BadRange { .. })));
                } else {
                    result.unwrap();
                    queue.push_back((*buffer, from, len));
                }
            }
            Op::Send { ring } => self.send(ring),
            Op::Rewrite { ring, place } => self.rewrite(ring, place),
            Op::EndProducer { ring } => {
                // The rest leaves, and the references go with the ring.
                drop(self.rings[ring].producer.take());
                let used = self.zone.in_use();
                assert_eq!(used, self.in_use());
                while !self.rings[ring].queue.is_empty() {
                    self.send(ring);
                }
                self.rings[ring] = self::ring();
            }
        }
        assert_eq!(self.zone.in_use(), self.in_use());
    }

    fn send(&mut self, ring: usize) {
        let Ring { producer, consumer, queue } = &mut self.rings[ring];
        let claimed = consumer.claim(Instant::ZERO).unwrap();
        let expected = queue.pop_front();
        assert_eq!(claimed.is_some(), expected.is_some());
        let (Some(claimed), Some((buffer, from, len))) = (claimed, expected) else { return };
        let mut out = Vec::new();
        assert!(consumer.copy_payload(claimed.token, &mut out));
        assert_eq!(out, self.contents[&buffer][from..from + len]);
        consumer.sent(claimed.token);
        if let Some(producer) = producer {
            producer.free_slots();
        }
    }

    fn rewrite(&mut self, ring: usize, place: usize) {
        let Some(&(buffer, from, len)) = self.rings[ring].queue.get(place) else { return };
        let only = self.uses(buffer) == 1;
        let Some(producer) = &mut self.rings[ring].producer else { return };
        let mut pulled = producer.pull_back_all().unwrap();
        let content = self.contents.get_mut(&buffer).expect("it is in use");
        assert_eq!(pulled.payload(place).unwrap(), &content[from..from + len]);
        match pulled.payload_mut(place) {
            Some(payload) => {
                assert!(only);
                payload.fill(0xaa);
                content[from..from + len].fill(0xaa);
            }
            None => assert!(!only),
        }
    }
}

proptest! {
    #[test]
    fn a_zone_counts_as_its_model_does(ops in prop::collection::vec(op(), 1..150)) {
        let mut model = Model {
            zone: PacketZone::new(PAGE as u32, BUFFERS as u32).unwrap(),
            rings: (0..RINGS).map(|_| ring()).collect(),
            handles: Vec::new(),
            contents: BTreeMap::new(),
            next: 0,
        };
        for op in ops {
            model.run(op);
        }
        let Model { zone, rings, handles, .. } = model;
        drop((rings, handles));
        assert_eq!(zone.in_use(), 0);
    }
}
