use timeous::core::{Duration, Rate};
use timeous_net::LinkConfig;
use timeous_net::link::{Capacity, Limit, Loss, Reorder};

use super::bed::Links;
use super::transfer::{Plan, Stack, Way, transfer};

#[test]
fn calibrate() {
    let env = |name: &str, otherwise: &str| std::env::var(name).unwrap_or(otherwise.to_owned());
    let num = |name, otherwise: &str| env(name, otherwise).parse::<f64>().unwrap();
    let base = LinkConfig {
        capacity: Capacity::Fixed(Rate::from_kbps((num("RATE", "40") * 1000.0) as u64)),
        delay: Duration::from_micros((num("DELAY", "2") * 1000.0) as u64),
        queue: Limit::Packets(num("QUEUE", "100") as usize),
        ..LinkConfig::default()
    };
    let p = num("LOSS", "0");
    let mut forward = base.clone();
    if p > 0.0 {
        forward.loss = Loss::Bernoulli { p };
    }
    let r = num("REORDER", "0");
    forward.reorder = Reorder { share: r, by: Some(Duration::from_micros((num("BY", "2") * 1000.0) as u64)) };
    forward.duplicate = num("DUP", "0");
    let links =
        Links { forward: forward.clone(), back: if env("WAY", "right") == "left" { forward.clone() } else { base } };
    for seed in 1..=(num("N", "3") as u64) {
        let plan = Plan {
            stack: Stack::Kernel,
            way: if env("WAY", "right") == "right" { Way::Right } else { Way::Left },
            len: num("LEN", "10000000") as usize,
            links: links.clone(),
            seed,
            patience: Duration::from_secs(200),
            capture: None,
        };
        let outcome = transfer(&format!("cal{seed}"), &plan).unwrap().unwrap();
        println!("{seed} {} {:?} {} {:?}", outcome.same, outcome.took, outcome.rate(plan.len), outcome.links[0]);
    }
}
