//! No password in an error, a debug print or a status, whatever the URL looks like and whoever
//! refuses it. The URLs are data that every language's tests read: `tests/secrets.json`.

use std::time::{Duration, Instant};

use sluicegate::{ErrorKind, Limiter, OnOutage};

#[derive(serde::Deserialize)]
struct Case {
    url: String,
    secret: String,
}

/// All that a program can be told of a limiter with this URL.
fn told(url: &str) -> Vec<String> {
    let builder = Limiter::builder().url(url).timeout(Duration::from_millis(500));
    let builder = builder.on_outage(OnOutage::Raise).deny_cache(Duration::ZERO);
    let mut told = vec![format!("{builder:?}")];
    match builder.open() {
        Err(error) => {
            assert_eq!(error.kind(), ErrorKind::Config, "{error}");
            told.extend([format!("{error}"), format!("{error:?}")]);
        }
        Ok(limiter) => {
            let limit = limiter.limit("secrets", "1/s").unwrap();
            let error = limit.try_acquire_blocking("k", 1).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Outage, "{error}");
            told.extend([format!("{error} {error:?}"), format!("{limiter:?} {limit:?}")]);
            let status = until_out(&limiter);
            told.push(status);
        }
    }
    told
}

/// The status when it knows what went wrong.
fn until_out(limiter: &Limiter) -> String {
    let until = Instant::now() + Duration::from_secs(20);
    loop {
        let status = limiter.status();
        if let Some(error) = &status.last_error {
            assert!(!error.is_empty());
            return format!("{status:?}");
        }
        assert!(Instant::now() < until, "{status:?}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn no_url_tells_its_password() {
    let text = std::fs::read_to_string("../tests/secrets.json").unwrap();
    let cases: Vec<Case> = serde_json::from_str(&text).unwrap();
    assert!(cases.len() > 50);
    for Case { url, secret } in cases {
        for told in told(&url) {
            assert!(!told.contains(&secret), "{url:?}: {told}");
        }
    }
}

#[test]
fn a_refused_password_is_not_told() {
    let Ok(url) = std::env::var("SLUICEGATE_TEST_REDIS") else {
        return eprintln!("skipped: SLUICEGATE_TEST_REDIS names no Redis");
    };
    let host = url.strip_prefix("redis://").unwrap();
    let told = told(&format!("redis://nobody:hunter2@{host}")).join("\n");
    assert!(told.contains("WRONGPASS"), "{told}");
    assert!(!told.contains("hunter2"), "{told}");
}

#[test]
fn a_long_url_is_refused_in_a_few_words() {
    for part in ["x", "x,", "?protocol=", "?x=", "?db=1&", "@", "/", "#", "%", ":"] {
        for scheme in ["redis", "redis+unix", "redis+cluster", "redis+sentinel", "memory", "x"] {
            let url = format!("{scheme}://h{part}{}", part.repeat((1 << 16) / part.len()));
            if let Err(error) = Limiter::open(&url) {
                assert!((10..2100).contains(&error.message().len()), "{}", error.message().len());
            }
        }
    }
}
