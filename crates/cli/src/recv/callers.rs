//! Any number of callers at once, each with a recording of its own.

use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};

use timeous::{Listener, Role, Uri, clock};

use super::args::RecvArgs;
use super::screen::Screen;
use super::serve::{End, WAIT, serve};
use crate::failure::Failure;
use crate::interrupt::Interrupt;
use crate::meter::{Meter, record};
use crate::notice::tell;
use crate::output::Output;
use crate::place::Place;

/// Whether the sink has a place for more than one stream.
pub(super) fn are_several(place: &Place) -> bool {
    matches!(place, Place::File(path) if path.contains("%n"))
}

/// Serves callers until it is interrupted: each on a thread of its own, so that none waits for another.
pub(super) fn receive(args: &RecvArgs, uri: &Uri, place: &Place, interrupt: &Interrupt) -> Result<(), Failure> {
    if !matches!(uri.role, Role::Listener { .. }) {
        return Err(Failure::Usage("%n in the sink's name needs a URI that listens: timeous://:port".to_owned()));
    }
    if args.frames.is_some() {
        return Err(Failure::Usage("--frames is of one stream: leave it out where the sink has a %n".to_owned()));
    }
    // A mistake shows before anybody has called.
    drop(Output::open(place, &args.sink_args)?);
    let mut listener = Listener::open(uri)?;
    tell(format_args!("listening at {}, for any number of callers", listener.local_addr()));
    let meter = Meter::new(&args.meter)?;
    let mut serving: Vec<JoinHandle<Result<(), Failure>>> = Vec::new();
    let failed: Arc<Mutex<Option<Failure>>> = Arc::default();
    while !interrupt.is_set() {
        serving.retain(|thread| !thread.is_finished());
        if let Some(failure) = failed.lock().unwrap_or_else(PoisonError::into_inner).take() {
            return Err(failure);
        }
        let Some(incoming) = listener.accept(Some(clock::now() + WAIT))? else { continue };
        let (sender, receiver) = incoming.accept();
        let output = Output::open(place, &args.sink_args)?;
        let mut screen = Screen::new(args, uri.options.latency, output)?;
        let (mut meter, interrupt, failed) = (meter.another(), interrupt.clone(), failed.clone());
        serving.push(thread::spawn(move || {
            let mut last = record(&[&receiver.stats()]);
            let ended = serve(sender, receiver, &mut screen, &mut meter, &interrupt, &mut last);
            tell(format_args!("a stream has ended: {}", screen.summary()));
            screen.finish(&last, &mut meter)?;
            match ended {
                Ok(()) => Ok(()),
                Err(End::Stream(failure)) => {
                    tell(failure);
                    Ok(())
                }
                // A disk that is full is full for all.
                Err(End::Sink(failure)) => {
                    *failed.lock().unwrap_or_else(PoisonError::into_inner) = Some(failure);
                    Ok(())
                }
            }
        }));
    }
    drop(listener);
    for thread in serving {
        match thread.join() {
            Ok(done) => done?,
            Err(panic) => std::panic::resume_unwind(panic),
        }
    }
    Ok(())
}
