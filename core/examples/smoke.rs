use sluicegate::*;
use std::time::Duration;
fn main() {
    let url = std::env::args().nth(1).unwrap();
    let l = Limiter::open(&url).unwrap();
    for spec in [
        "100/s burst 5",
        "gcra 3/s burst 5",
        "leaky-bucket 10/s queue 3",
        "fixed-window 3/m",
        "sliding-window 4/m",
        "sliding-log 4/m",
        "10/s; fixed-window 3/h",
    ] {
        let x = l.limit("t", spec).unwrap();
        println!("== {spec}");
        for c in [1u64, 2, 1, 1, 0, 9] {
            println!("{c} {:?}", x.try_acquire_blocking("k", c));
        }
        println!("{:?} {:?}", x.peek_blocking("k"), x.refund_blocking("k", 1));
        println!("{:?}", x.reserve_blocking("k", 1, Duration::from_secs(1)).map_err(|e| e.to_string()));
        println!("{:?}", x.acquire_blocking("k", 1, Duration::from_millis(300)).map_err(|e| e.to_string()));
    }
    let c = l.limit("c", "concurrency 2 ttl 10s").unwrap();
    let a = c.hold_blocking("k", Duration::ZERO);
    println!("{a:?}");
    let b = c.hold_blocking("k", Duration::ZERO);
    println!("{b:?}");
    let d = c.hold_blocking("k", Duration::from_millis(80));
    println!("{d:?}");
    drop(a);
    std::thread::sleep(Duration::from_millis(20));
    println!("{:?}", c.hold_blocking("k", Duration::ZERO));
    println!("{:?}", l.status());
}
