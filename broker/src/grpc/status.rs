//! What each outcome is as a gRPC status and a CS3 code: one place. It does not own what is audited or counted (`call.rs`).
//!
//! As reva has it: who one is, is told by gRPC's own status; everything else comes with gRPC's OK and a code of CS3's in the answer.

use tonic::Code as GrpcCode;

use super::messages::rpc::{Code, Status};
use crate::cs3::Cs3Error;

/// How a call is told that it has no answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Told {
    /// By the status of gRPC.
    Grpc(GrpcCode),
    /// By a code in the answer.
    Cs3(Code),
}

/// What an error is told as, and how it is counted.
pub(super) const fn meaning(error: &Cs3Error) -> (Told, &'static str) {
    match error {
        Cs3Error::NoToken => (Told::Grpc(GrpcCode::Unauthenticated), "refused"),
        Cs3Error::BadToken(_) => (Told::Grpc(GrpcCode::PermissionDenied), "refused"),
        Cs3Error::NotAllowed(_) => (Told::Cs3(Code::PermissionDenied), "refused"),
        Cs3Error::NotFound => (Told::Cs3(Code::NotFound), "not_found"),
        Cs3Error::Invalid(_) => (Told::Cs3(Code::InvalidArgument), "invalid"),
        // OpenCloud makes a sign-out of "not found": what could not be told is never that.
        Cs3Error::Directory(_) | Cs3Error::Store(_) => (Told::Cs3(Code::Unavailable), "unavailable"),
    }
}

/// For whoever operates the caller. What is not good about a token stands in the audit log only, and what a directory said in the log.
pub(super) fn text(error: &Cs3Error) -> String {
    match error {
        Cs3Error::BadToken(_) => "the token in `x-access-token` is not good: the audit log of Denizen says why".to_owned(),
        Cs3Error::Directory(_) => "a directory could not tell: the log of Denizen says which".to_owned(),
        Cs3Error::Store(_) => "Denizen's store could not tell".to_owned(),
        Cs3Error::NoToken | Cs3Error::NotAllowed(_) | Cs3Error::NotFound | Cs3Error::Invalid(_) => error.to_string(),
    }
}

/// A CS3 status.
pub(super) fn status(code: Code, message: String, trace: &str) -> Status {
    Status { code: code.into(), message, trace: trace.to_owned(), target_uri: String::new() }
}

#[cfg(test)]
mod tests {
    use connectors::ConnectorError;

    use super::*;
    use crate::{directory::DirectoryError, store::StoreError};

    #[test]
    fn an_outage_is_never_not_found_nor_a_refusal() {
        let errors = [
            Cs3Error::Directory(DirectoryError::Connector(ConnectorError::Unavailable("down".into()))),
            Cs3Error::Store(StoreError::Unavailable("torn".into())),
        ];
        for error in errors {
            assert_eq!(meaning(&error), (Told::Cs3(Code::Unavailable), "unavailable"), "{error}");
            assert!(!text(&error).contains("down") && !text(&error).contains("torn"), "{}", text(&error));
        }
    }

    #[test]
    fn who_one_is_is_told_by_grpc_and_everything_else_by_cs3() {
        let told = |error| meaning(&error).0;
        assert_eq!(told(Cs3Error::NoToken), Told::Grpc(GrpcCode::Unauthenticated));
        assert_eq!(told(Cs3Error::BadToken("it has expired")), Told::Grpc(GrpcCode::PermissionDenied));
        assert_eq!(told(Cs3Error::NotAllowed("links see their owner")), Told::Cs3(Code::PermissionDenied));
        assert_eq!(told(Cs3Error::NotFound), Told::Cs3(Code::NotFound));
        assert_eq!(told(Cs3Error::Invalid("no")), Told::Cs3(Code::InvalidArgument));
        assert!(!text(&Cs3Error::BadToken("the tenant is disabled")).contains("tenant"), "no hint at which tenants there are");
    }
}
