//! What can go wrong between us and a server, and what follows from it: whether it is known that nothing was done, whether another
//! server is to be asked, and whether to try again.

use redis::{RedisError, ServerError, ServerErrorKind};

use super::connecting::Unreached;
use crate::store::StoreError;

/// Why a server gave no answer that can be used.
#[derive(Debug, Clone, thiserror::Error)]
pub(super) enum Fault {
    /// There is no connection to it; nothing was sent.
    #[error("{0}")]
    Unreachable(String),
    /// It is not the primary of what was asked for (MOVED, READONLY, its role); nothing was done.
    #[error("the server is not the primary: {0}")]
    Elsewhere(String),
    /// It serves nothing at the moment (LOADING, CLUSTERDOWN, TRYAGAIN, ASK, NOREPLICAS …); nothing was done.
    #[error("the server does not serve at the moment: {0}")]
    NotNow(String),
    /// It does not know the script; nothing was done.
    #[error("the server does not know the script")]
    NoScript,
    /// It said no (ACL, memory, disk, a fault of ours): to try again does not help.
    #[error("the server refuses: {0}")]
    Refused(String),
    /// It was asked and did not answer, or the connection broke: whether it was done is not known.
    #[error("the server did not answer: {0}")]
    Unanswered(String),
    /// It was done, but fewer replicas than are needed have it: it may be lost with the server.
    #[error("only {0} of the server's replicas had it in time")]
    Unacknowledged(i64),
}

impl Fault {
    /// What an error of the server means.
    pub(super) fn of_server(error: &ServerError) -> Self {
        let text =
            error.details().map_or_else(|| error.code().to_owned(), |details| format!("{} {}", error.code(), without_arguments(details)));
        match error.kind() {
            Some(ServerErrorKind::Moved | ServerErrorKind::ReadOnly) => Self::Elsewhere(text),
            Some(
                ServerErrorKind::BusyLoading
                | ServerErrorKind::ClusterDown
                | ServerErrorKind::MasterDown
                | ServerErrorKind::TryAgain
                | ServerErrorKind::Ask,
            ) => Self::NotNow(text),
            Some(ServerErrorKind::NoScript) => Self::NoScript,
            _ if matches!(error.code(), "NOREPLICAS" | "BUSY") => Self::NotNow(text),
            // A client that waited when the server was made a replica: what it had written may be gone.
            _ if error.code() == "UNBLOCKED" => Self::Unacknowledged(0),
            _ => Self::Refused(text),
        }
    }

    /// What an error of a call means: one that the server said, or else there is no telling whether it was done.
    pub(super) fn of_call(error: RedisError) -> Self {
        match ServerError::try_from(error) {
            Ok(said) => Self::of_server(&said),
            Err(error) => Self::Unanswered(error.to_string()),
        }
    }

    /// Whether the map of primaries is to be made anew.
    pub(super) const fn asks_to_resolve(&self) -> bool {
        matches!(self, Self::Unreachable(_) | Self::Elsewhere(_) | Self::NotNow(_) | Self::Unanswered(_))
    }

    /// Whether surely nothing was done, and the same may be asked once more.
    pub(super) const fn is_surely_undone(&self) -> bool {
        matches!(self, Self::Unreachable(_) | Self::Elsewhere(_) | Self::NotNow(_) | Self::NoScript)
    }

    /// Whether the connection can not be used any longer: an answer may still come, and would be taken for another's.
    pub(super) const fn ends_the_connection(&self) -> bool {
        matches!(self, Self::Unanswered(_) | Self::Elsewhere(_))
    }
}

/// What a server says of a command that it does not know, without the arguments, which it repeats: keys, values, our password.
pub(super) fn without_arguments(said: &str) -> &str {
    said.split_once(", with args").map_or(said, |(said, _)| said)
}

impl From<Unreached> for Fault {
    fn from(unreached: Unreached) -> Self {
        match unreached {
            Unreached::NotPrimary(_) => Self::Elsewhere(unreached.to_string()),
            _ => Self::Unreachable(unreached.to_string()),
        }
    }
}

impl From<Fault> for StoreError {
    fn from(fault: Fault) -> Self {
        Self::Unavailable(Box::new(fault))
    }
}

#[cfg(test)]
mod tests {
    use redis::{Value, parse_redis_value};

    use super::*;

    fn said(text: &str) -> Fault {
        let Value::ServerError(error) = parse_redis_value(format!("-{text}\r\n").as_bytes()).unwrap() else { panic!("{text}") };
        Fault::of_server(&error)
    }

    #[test]
    fn what_was_surely_not_done_is_known() {
        for text in [
            "MOVED 3999 127.0.0.1:6381",
            "READONLY You can't write against a read only replica.",
            "READONLY Can not run script with write flag on readonly replica.",
            "LOADING Redis is loading the dataset in memory",
            "CLUSTERDOWN The cluster is down",
            "TRYAGAIN Multiple keys request during rehashing of slot",
            "ASK 3999 127.0.0.1:6381",
            "NOREPLICAS Not enough good replicas to write.",
            "BUSY Redis is busy running a script.",
            "NOSCRIPT No matching script.",
        ] {
            assert!(said(text).is_surely_undone(), "{text}");
        }
    }

    #[test]
    fn what_a_server_repeats_of_a_command_is_not_told() {
        for text in [
            "ERR unknown command 'EVALSHA', with args beginning with: 'abc' '2' 'the-key' ",
            "ERR unknown command `HELLO`, with args beginning with: `3`, `AUTH`, `denizen`, `the-key`, ",
        ] {
            let fault = said(text).to_string();
            assert!(fault.contains("unknown command") && !fault.contains("the-key"), "{fault}");
        }
    }

    #[test]
    fn what_may_have_been_done_is_not_tried_again() {
        for text in ["ERR user_script:1: something", "WRONGTYPE Operation against a key", "UNBLOCKED instance state changed", "OOM no", "X"]
        {
            assert!(!said(text).is_surely_undone(), "{text}");
        }
        let broken = RedisError::from(std::io::Error::from(std::io::ErrorKind::BrokenPipe));
        let fault = Fault::of_call(broken);
        assert!(!fault.is_surely_undone() && fault.ends_the_connection() && fault.asks_to_resolve(), "{fault}");
    }
}
