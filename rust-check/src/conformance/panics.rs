//! Panics of a decoder under test: caught, told with their place, and kept off the terminal.

use std::any::Any;
use std::cell::RefCell;
use std::fmt;
use std::panic::{self, AssertUnwindSafe};
use std::sync::Once;

thread_local! {
    /// `Some` while this thread runs a decoder: where its last panic came from, if there was one.
    static WATCHED: RefCell<Option<String>> = const { RefCell::new(None) };
}

/// A panic that was caught.
pub(super) struct Caught {
    message: String,
    place: String,
}

impl fmt::Display for Caught {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)?;
        match self.place.as_str() {
            "" => Ok(()),
            place => write!(f, " (at {place})"),
        }
    }
}

/// Runs a decoder; its panic is a value, and nothing is printed about it.
pub(super) fn caught<T>(decoder: impl FnOnce() -> T) -> Result<T, Caught> {
    install_hook();
    let outer = WATCHED.with(|watched| watched.replace(Some(String::new())));
    // The closure may be left half-way by its own panic, which is for whoever wrote it to judge:
    // the report names that panic, and later vectors run on what it left.
    let result = panic::catch_unwind(AssertUnwindSafe(decoder));
    let place = WATCHED.with(|watched| watched.replace(outer)).unwrap_or_default();
    result.map_err(|payload| Caught { message: text(payload.as_ref()), place })
}

/// Puts a hook before the one that is there, once in the process. It takes the word from that hook
/// only on a thread that is just now running a decoder, so that other tests, which run in parallel
/// on other threads, print their panics as ever.
fn install_hook() {
    static ONCE: Once = Once::new();
    if std::thread::panicking() {
        return; // the hook cannot be changed now
    }
    ONCE.call_once(|| {
        let earlier = panic::take_hook();
        panic::set_hook(Box::new(move |info| {
            let place = info.location().map(ToString::to_string).unwrap_or_default();
            let silenced = WATCHED.try_with(|watched| match watched.try_borrow_mut() {
                Ok(mut watched) if watched.is_some() => {
                    *watched = Some(place);
                    true
                }
                _ => false,
            });
            if silenced != Ok(true) {
                earlier(info);
            }
        }));
    });
}

fn text(payload: &(dyn Any + Send)) -> String {
    if let Some(text) = payload.downcast_ref::<&str>() {
        (*text).to_owned()
    } else if let Some(text) = payload.downcast_ref::<String>() {
        text.clone()
    } else {
        "with a payload that is no text".to_owned()
    }
}
