//! listener URL: prints what is told, until the store is back.

use std::env;
use std::sync::mpsc;
use std::time::Duration;

use sluicegate::{EventKind, Limiter};

fn main() -> Result<(), sluicegate::Error> {
    let url = env::args().nth(1).expect("a URL");
    let (sender, receiver) = mpsc::channel();
    let builder = Limiter::builder().url(&url).timeout(Duration::from_secs(5));
    let limiter = builder.on_event(move |event| sender.send(event.kind).unwrap()).open()?;
    for kind in receiver {
        println!("{}", kind.as_str());
        if kind == EventKind::Back {
            break;
        }
    }
    limiter.close();
    Ok(())
}
