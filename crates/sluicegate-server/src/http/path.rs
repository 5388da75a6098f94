//! The path of a request, written in the one way in which limits are matched by it.

use percent_encoding::percent_decode_str;

/// The path of a URI as a server behind takes it, however a client spells it: without query and authority, decoded once, without
/// empty and dot segments (RFC 3986, §5.2.4). Else `/v1/x`, `//v1/x`, `/./v1/x` and `/%761/x` are one page and four paths, and
/// a limit on `/v1/*` counts one of them.
pub(super) fn normalized(uri: &str) -> String {
    let whole = uri.split(['?', '#']).next().unwrap_or_default();
    let path = match whole.split_once("://") {
        // The authority ends where the path begins.
        Some((scheme, rest)) if !scheme.contains('/') => rest.find('/').map_or("/", |at| rest.split_at(at).1),
        _ => whole,
    };
    let decoded = percent_decode_str(path).decode_utf8_lossy();
    let mut segments: Vec<&str> = Vec::new();
    for segment in decoded.split('/') {
        match segment {
            "" | "." => {}
            ".." => drop(segments.pop()),
            segment => segments.push(segment),
        }
    }
    let is_folder = decoded.ends_with(['/']) || decoded.ends_with("/.") || decoded.ends_with("/..");
    let end = if is_folder && !segments.is_empty() { "/" } else { "" };
    format!("/{}{end}", segments.join("/"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_page_has_one_path_however_it_is_spelled() {
        for spelled in [
            "/v1/x",
            "//v1/x",
            "/v1//x",
            "/./v1/x",
            "/z/../v1/x",
            "/../v1/x",
            "/%761/x",
            "/v1%2Fx",
            "/v1/%78",
            "/v1/x?a=/b",
            "/v1/x#y",
            "http://host/v1/x",
            "https://u:p@host:1//v1/./x?q",
            "/v1/y/../x",
            "/%2e/v1/x",
            "/z/%2E%2e/v1/x",
        ] {
            assert_eq!(normalized(spelled), "/v1/x", "{spelled}");
        }
        for (spelled, path) in [
            ("", "/"),
            ("/", "/"),
            ("//", "/"),
            ("/..", "/"),
            ("/v1/", "/v1/"),
            ("/v1/x/..", "/v1/"),
            ("/v1/.", "/v1/"),
            ("http://host", "/"),
            ("/a://b", "/a:/b"),
            ("/%2561", "/%61"),
            ("/%zz%", "/%zz%"),
            ("/...", "/..."),
            ("/%ff", "/\u{fffd}"),
        ] {
            assert_eq!(normalized(spelled), path, "{spelled}");
        }
    }
}
