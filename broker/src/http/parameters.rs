//! Parameters of a query or a form, each at most once (RFC 6749, 3.1), but for `resource` (RFC 8707).

use axum::{
    body::Bytes,
    extract::{FromRequest, FromRequestParts, Request},
    http::{Method, StatusCode, header, request::Parts},
};

use super::failure::Failure;

/// The parameters, in the order in which they came.
#[derive(Default)]
pub(crate) struct Parameters(Vec<(String, String)>);

impl Parameters {
    pub(crate) fn parse(encoded: &[u8]) -> Result<Self, Failure> {
        let pairs: Vec<(String, String)> = url::form_urlencoded::parse(encoded).into_owned().collect();
        if pairs.len() > 64 {
            return Err(Failure::bad_request("more than 64 parameters"));
        }
        Ok(Self(pairs))
    }

    /// One parameter; an empty one is as absent (RFC 6749, 3.1).
    ///
    /// # Errors
    /// Where it came more than once.
    pub(crate) fn one(&self, name: &str) -> Result<Option<&str>, Failure> {
        let mut values = self.0.iter().filter(|(n, _)| n == name).map(|(_, v)| v.as_str());
        let first = values.next();
        if values.next().is_some() {
            return Err(Failure::bad_request(format!("the parameter `{name}` came more than once")));
        }
        Ok(first.filter(|v| !v.is_empty()))
    }

    /// One parameter that must be there.
    ///
    /// # Errors
    /// Where it is missing, or came more than once.
    pub(crate) fn required(&self, name: &str) -> Result<&str, Failure> {
        self.one(name)?.ok_or_else(|| Failure::bad_request(format!("the parameter `{name}` is missing")))
    }

    /// All values of a parameter that may be repeated.
    pub(crate) fn all(&self, name: &str) -> Vec<String> {
        self.0.iter().filter(|(n, v)| n == name && !v.is_empty()).map(|(_, v)| v.clone()).collect()
    }

    /// All of them, in the order in which they came.
    pub(crate) fn pairs(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(name, value)| (name.as_str(), value.as_str()))
    }

    /// The parameters as a query.
    pub(crate) fn encoded(&self) -> String {
        url::form_urlencoded::Serializer::new(String::new()).extend_pairs(&self.0).finish()
    }

    /// Refuses parameters that are not known, by name.
    ///
    /// # Errors
    /// Where there is one.
    pub(crate) fn only(&self, known: &[&str]) -> Result<(), Failure> {
        match self.0.iter().find(|(name, _)| !known.contains(&name.as_str())) {
            Some((name, _)) if name.len() <= 32 && name.bytes().all(|b| b.is_ascii_graphic()) => {
                Err(Failure::bad_request(format!("the parameter `{name}` is unknown; known are: {}", known.join(", "))))
            }
            Some(_) => Err(Failure::bad_request(format!("a parameter is unknown; known are: {}", known.join(", ")))),
            None => Ok(()),
        }
    }
}

/// The parameters of the query.
pub(crate) struct Query(pub(crate) Parameters);

impl<S: Sync> FromRequestParts<S> for Query {
    type Rejection = Failure;
    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Failure> {
        Parameters::parse(parts.uri.query().unwrap_or_default().as_bytes()).map(Self)
    }
}

/// The parameters of a form's body; with GET and HEAD, those of the query.
pub(crate) struct Form(pub(crate) Parameters);

impl<S: Send + Sync> FromRequest<S> for Form {
    type Rejection = Failure;
    async fn from_request(request: Request, state: &S) -> Result<Self, Failure> {
        if matches!(*request.method(), Method::GET | Method::HEAD) {
            return Parameters::parse(request.uri().query().unwrap_or_default().as_bytes()).map(Self);
        }
        let content_type = request.headers().get(header::CONTENT_TYPE).and_then(|v| v.to_str().ok()).unwrap_or_default();
        // The media type, in any case (RFC 9110, 8.3.1), without its parameters.
        let media_type = content_type.split(';').next().unwrap_or_default().trim();
        if !media_type.eq_ignore_ascii_case("application/x-www-form-urlencoded") {
            let what = "send the parameters as application/x-www-form-urlencoded";
            return Err(Failure::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "invalid_request", what));
        }
        let body = Bytes::from_request(request, state).await.map_err(|e| body_failure(e.status()))?;
        Parameters::parse(&body).map(Self)
    }
}

/// A body that could not be read.
pub(crate) fn body_failure(status: StatusCode) -> Failure {
    if status == StatusCode::PAYLOAD_TOO_LARGE {
        Failure::new(status, "invalid_request", format!("the body is larger than {} bytes", super::MOST_BODY_BYTES))
    } else {
        Failure::bad_request("the body could not be read")
    }
}

#[cfg(test)]
mod tests {
    use axum::body::Body;

    use super::*;

    async fn read(method: Method, content_type: &str) -> Result<Option<String>, StatusCode> {
        let request = Request::builder().method(method).uri("/?a=query").header(header::CONTENT_TYPE, content_type);
        let Form(form) = Form::from_request(request.body(Body::from("a=body")).unwrap(), &()).await.map_err(|failure| failure.status)?;
        Ok(form.one("a").unwrap().map(str::to_owned))
    }

    #[tokio::test]
    async fn a_head_is_read_as_a_get() {
        for method in [Method::GET, Method::HEAD] {
            assert_eq!(read(method, "text/plain").await, Ok(Some("query".to_owned())));
        }
    }

    #[tokio::test]
    async fn a_forms_media_type_is_read_in_any_case_and_whole() {
        for good in [
            "application/x-www-form-urlencoded",
            "Application/X-WWW-Form-Urlencoded",
            "application/x-www-form-urlencoded;charset=UTF-8",
            "application/x-www-form-urlencoded ; charset=utf-8",
        ] {
            assert_eq!(read(Method::POST, good).await, Ok(Some("body".to_owned())), "{good}");
        }
        for bad in ["application/x-www-form-urlencoded-not", "application/json", "multipart/form-data", ""] {
            assert_eq!(read(Method::POST, bad).await, Err(StatusCode::UNSUPPORTED_MEDIA_TYPE), "{bad}");
        }
    }
}
