//! The PROXY protocol, versions 1 and 2: what a proxy that passes bytes on says first of the connection.
//!
//! <https://www.haproxy.org/download/3.0/doc/proxy-protocol.txt>

use std::{
    io,
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
    str::FromStr,
};

use tokio::io::{AsyncRead, AsyncReadExt};

/// What both versions can be told apart by.
const BEGINNING_LEN: usize = 8;
/// How version 2 begins; four bytes follow that say what comes.
const SIGNATURE: &[u8; 12] = b"\r\n\r\n\0\r\nQUIT\n";
/// What version 1 begins with.
const WORD: &[u8] = b"PROXY ";
/// The longest header of version 1, its line end included.
const MAX_LINE_LEN: usize = 107;
/// The most bytes after the head of version 2: the addresses and extensions, which are skipped.
const MAX_BODY_LEN: usize = 4 * 1024;

/// Whose connection it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Said {
    /// A client's, at this address if the proxy knows it.
    Client(Option<IpAddr>),
    /// The proxy's own, for instance to see whether this server is well.
    Itself,
}

/// Bytes that are no header.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the connection does not begin with a header of the PROXY protocol")]
struct NoHeader;

/// Reads a header, and not one byte of what follows it.
///
/// # Errors
/// [`io::Error`] if there is none.
pub(crate) async fn read<R: AsyncRead + Unpin>(stream: &mut R) -> io::Result<Said> {
    let no_header = |error| io::Error::new(io::ErrorKind::InvalidData, error);
    let mut beginning = [0; BEGINNING_LEN];
    stream.read_exact(&mut beginning).await?;
    if beginning.starts_with(WORD) {
        let line = read_line(stream, beginning.to_vec()).await?;
        return of_line(&line).map_err(no_header);
    }
    let mut head = [0; SIGNATURE.len() + 4];
    let (known, rest) = head.split_at_mut(BEGINNING_LEN);
    known.copy_from_slice(&beginning);
    if !SIGNATURE.starts_with(known) {
        return Err(no_header(NoHeader));
    }
    stream.read_exact(rest).await?;
    let [.., high, low] = head;
    let mut body = vec![0; usize::from(u16::from_be_bytes([high, low]))];
    if body.len() > MAX_BODY_LEN {
        return Err(no_header(NoHeader));
    }
    stream.read_exact(&mut body).await?;
    of_bytes(&head, &body).map_err(no_header)
}

/// The rest of a line. It is read byte by byte, once for each connection, since what follows it is not ours to read.
async fn read_line<R: AsyncRead + Unpin>(stream: &mut R, mut line: Vec<u8>) -> io::Result<Vec<u8>> {
    while !line.ends_with(b"\r\n") && line.len() < MAX_LINE_LEN {
        line.push(stream.read_u8().await?);
    }
    Ok(line)
}

/// `PROXY TCP4 198.51.100.7 203.0.113.1 35646 80` and the end of the line.
fn of_line(line: &[u8]) -> Result<Said, NoHeader> {
    let line = line.strip_suffix(b"\r\n").ok_or(NoHeader)?;
    let words: Vec<_> = std::str::from_utf8(line).map_err(|_| NoHeader)?.split(' ').collect();
    match *words {
        ["PROXY", "UNKNOWN", ..] => Ok(Said::Client(None)),
        ["PROXY", family, source, destination, source_port, destination_port] => {
            for port in [source_port, destination_port] {
                port.parse::<u16>().map_err(|_| NoHeader)?;
            }
            let source = match family {
                "TCP4" => both::<Ipv4Addr>(source, destination)?.into(),
                "TCP6" => both::<Ipv6Addr>(source, destination)?.into(),
                _ => return Err(NoHeader),
            };
            Ok(Said::Client(Some(source)))
        }
        _ => Err(NoHeader),
    }
}

/// The source, where the destination is of the same family.
fn both<A: FromStr>(source: &str, destination: &str) -> Result<A, NoHeader> {
    destination.parse::<A>().and_then(|_| source.parse()).map_err(|_| NoHeader)
}

/// The head of version 2, and the addresses that it announces.
fn of_bytes(head: &[u8; SIGNATURE.len() + 4], body: &[u8]) -> Result<Said, NoHeader> {
    let [signature @ .., version_and_command, family, _, _] = head;
    if signature != SIGNATURE {
        return Err(NoHeader);
    }
    match (version_and_command, family >> 4) {
        (0x20, _) => Ok(Said::Itself),
        (0x21, 1) => client::<4, 12>(body),
        (0x21, 2) => client::<16, 36>(body),
        // Neither kind of address: a unix socket, or none at all.
        (0x21, 0 | 3) => Ok(Said::Client(None)),
        _ => Err(NoHeader),
    }
}

/// The source of a pair of addresses of `LEN` bytes; with their ports they are `ALL` bytes, and extensions may follow.
fn client<const LEN: usize, const ALL: usize>(body: &[u8]) -> Result<Said, NoHeader>
where
    IpAddr: From<[u8; LEN]>,
{
    let addresses = body.first_chunk::<ALL>().ok_or(NoHeader)?;
    let source = addresses.first_chunk::<LEN>().ok_or(NoHeader)?;
    Ok(Said::Client(Some(IpAddr::from(*source))))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a header means, and what is left of the bytes after it.
    async fn said(bytes: &[u8]) -> io::Result<(Said, Vec<u8>)> {
        let mut stream = bytes;
        Ok((read(&mut stream).await?, stream.to_vec()))
    }

    fn v2(command: u8, family: u8, body: &[u8]) -> Vec<u8> {
        let length = u16::try_from(body.len()).unwrap_or(u16::MAX).to_be_bytes();
        [&SIGNATURE[..], &[command, family], &length, body].concat()
    }

    #[tokio::test]
    async fn both_versions_tell_the_client_and_leave_what_follows() -> io::Result<()> {
        let v4 = Said::Client(Some(Ipv4Addr::new(198, 51, 100, 7).into()));
        let v6 = Said::Client(Some(Ipv6Addr::from_bits(1).into()));
        let ports = [0x8b, 0x3e, 0, 80];
        let four = [&[198, 51, 100, 7, 203, 0, 113, 1][..], &ports].concat();
        let six = [&Ipv6Addr::from_bits(1).octets()[..], &[9; 16], &ports, b"an extension"].concat();
        for (header, expected) in [
            (b"PROXY TCP4 198.51.100.7 203.0.113.1 35646 80\r\n".to_vec(), v4),
            (b"PROXY TCP6 ::1 2001:db8::1 35646 65535\r\n".to_vec(), v6),
            (b"PROXY UNKNOWN\r\n".to_vec(), Said::Client(None)),
            (b"PROXY UNKNOWN ffff:f...f:ffff ffff:f...f:ffff 65535 65535\r\n".to_vec(), Said::Client(None)),
            (v2(0x21, 0x11, &four), v4),
            (v2(0x21, 0x21, &six), v6),
            (v2(0x21, 0x00, b""), Said::Client(None)),
            (v2(0x21, 0x31, &[0; 216]), Said::Client(None)),
            (v2(0x20, 0x00, b""), Said::Itself),
            (v2(0x20, 0x11, &four), Said::Itself),
        ] {
            let (said, rest) = said(&[&header[..], b"GET / HTTP/1.1"].concat()).await?;
            assert_eq!((said, &rest[..]), (expected, &b"GET / HTTP/1.1"[..]), "{}", header.escape_ascii());
        }
        Ok(())
    }

    #[tokio::test]
    async fn what_is_no_header_is_refused() {
        let long = [&b"PROXY UNKNOWN "[..], &[b'x'; 200], b"\r\n"].concat();
        for bytes in [
            b"GET / HTTP/1.1\r\nhost: x\r\n\r\n".to_vec(),
            b"PROXY TCP4 198.51.100.7 203.0.113.1 35646\r\n".to_vec(),
            b"PROXY TCP4 ::1 ::1 35646 80\r\n".to_vec(),
            b"PROXY TCP4 198.51.100.7 ::1 35646 80\r\n".to_vec(),
            b"PROXY TCP4 198.51.100.7 203.0.113.1 35646 65536\r\n".to_vec(),
            b"PROXY TCP4  198.51.100.7 203.0.113.1 35646 80\r\n".to_vec(),
            b"PROXY UDP4 198.51.100.7 203.0.113.1 35646 80\r\n".to_vec(),
            b"PROXY TCP4 198.51.100.7 203.0.113.1 1 2\n\n".to_vec(),
            b"proxy TCP4 198.51.100.7 203.0.113.1 35646 80\r\n".to_vec(),
            long,
            v2(0x11, 0x11, &[0; 12]),
            v2(0x22, 0x11, &[0; 12]),
            v2(0x21, 0x11, &[0; 11]),
            v2(0x21, 0x21, &[0; 35]),
            v2(0x21, 0x41, &[0; 36]),
            v2(0x21, 0x11, &[0; MAX_BODY_LEN + 1]),
            b"PROXY ".to_vec(),
            SIGNATURE.to_vec(),
        ] {
            assert!(said(&bytes).await.is_err(), "{}", bytes.escape_ascii());
        }
    }

    /// Random bytes after every beginning that goes on being read: no panic, no end that is missed, and no more read
    /// than a header may have.
    #[tokio::test]
    async fn no_bytes_break_the_reader() {
        let seed = fastrand::u64(..);
        let mut random = fastrand::Rng::with_seed(seed);
        let beginnings =
            [&b""[..], WORD, b"PROXY TCP4 ", b"PROXY TCP6 ::1 ", SIGNATURE, b"\r\n\r\n\0\r\nQUIT\n\x21\x11"];
        for _ in 0..20_000 {
            let mut bytes = random.choice(beginnings).unwrap_or_default().to_vec();
            let alphabet = b"0123456789.: \r\nTCP46\x00\x0c\x21\x11\xff";
            let tail =
                (0..random.usize(..6_000)).map(|_| random.choice(alphabet).copied().unwrap_or_default());
            bytes.extend(tail.collect::<Vec<_>>());
            if let Ok((_, rest)) = said(&bytes).await {
                assert!(bytes.len() - rest.len() <= SIGNATURE.len() + 4 + MAX_BODY_LEN, "seed {seed}");
            }
        }
    }
}
