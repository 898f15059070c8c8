//! The file of a Unix socket: who may open it, what is left there of an earlier run, and its end. It does not own what is said
//! through it (`connection.rs`).

use std::{
    fs, io,
    os::unix::fs::{DirBuilderExt as _, FileTypeExt as _, MetadataExt as _, PermissionsExt as _, chown},
    path::{Path, PathBuf},
    process,
};

use nix::unistd::Group;
use tokio::net::{UnixListener, UnixStream};

use crate::config::Cs3Socket;

/// How many names for the private folder are tried.
const TRIES: u32 = 100;

/// Why there is no socket. The text says what to do.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SocketError {
    /// The mode is no mode.
    #[error("the mode `{0}` must be three or four octal digits of at most 0777, such as \"0660\"")]
    Mode(String),
    /// There is no such group.
    #[error("there is no group `{0}` on this machine: name one that there is, or its number")]
    NoGroup(String),
    /// Something else has the path.
    #[error("there is a file that is no socket: move it away, or name another path")]
    NoSocket,
    /// Someone listens there.
    #[error("another program listens there: end it, or name another path")]
    Live,
    /// It could not be told whether someone listens there.
    #[error("it can not be told whether another program listens there: {0}")]
    Unclear(io::Error),
    /// The folder can not be used.
    #[error("its folder can not be used, it must be there and Denizen must be able to write in it: {0}")]
    Folder(io::Error),
    /// The group can not be given.
    #[error("it can not be given to the group, whose member Denizen's user must be: {0}")]
    Group(io::Error),
    /// Anything else.
    #[error(transparent)]
    Io(#[from] io::Error),
}

/// The file, for as long as this lives. It is removed at the end, unless someone has put another one there.
#[derive(Debug)]
pub(super) struct SocketFile {
    path: PathBuf,
    /// Device and inode.
    identity: (u64, u64),
}

impl SocketFile {
    pub(super) fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        if fs::symlink_metadata(&self.path).is_ok_and(|found| (found.dev(), found.ino()) == self.identity) {
            // A file that stays is taken for what it is at the next start.
            _ = fs::remove_file(&self.path);
        }
    }
}

/// Listens. Nobody can connect before mode and group are as configured: the socket is made in a folder that is ours alone, and
/// then moved to its path, which replaces what an earlier run has left there.
///
/// # Errors
/// As [`SocketError`] says. A live socket, and what is no socket, are left alone.
pub(super) async fn bind(config: &Cs3Socket) -> Result<(UnixListener, SocketFile), SocketError> {
    let mode = mode(&config.mode)?;
    let group = config.group.as_deref().map(group).transpose()?;
    must_be_free(&config.path).await?;
    let private = PrivateFolder::beside(&config.path)?;
    let made = private.0.join("s");
    let listener = UnixListener::bind(&made)?;
    if let Some(group) = group {
        chown(&made, None, Some(group)).map_err(SocketError::Group)?;
    }
    fs::set_permissions(&made, fs::Permissions::from_mode(mode))?;
    let found = fs::symlink_metadata(&made)?;
    fs::rename(&made, &config.path)?;
    Ok((listener, SocketFile { path: config.path.clone(), identity: (found.dev(), found.ino()) }))
}

fn mode(text: &str) -> Result<u32, SocketError> {
    let is_octal = matches!(text.len(), 3 | 4) && text.bytes().all(|b| matches!(b, b'0'..=b'7'));
    let mode = u32::from_str_radix(text, 8).ok().filter(|mode| is_octal && *mode <= 0o777);
    mode.ok_or_else(|| SocketError::Mode(text.to_owned()))
}

fn group(text: &str) -> Result<u32, SocketError> {
    if let Ok(number) = text.parse() {
        return Ok(number);
    }
    let found = Group::from_name(text).map_err(|errno| SocketError::Group(errno.into()))?;
    found.map(|group| group.gid.as_raw()).ok_or_else(|| SocketError::NoGroup(text.to_owned()))
}

/// Nothing is at the path, or a socket behind which there is no one any more.
async fn must_be_free(path: &Path) -> Result<(), SocketError> {
    match fs::symlink_metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(SocketError::Folder(error)),
        Ok(found) if !found.file_type().is_socket() => return Err(SocketError::NoSocket),
        Ok(_) => {}
    }
    match UnixStream::connect(path).await {
        // Whose queue is full lives.
        Ok(_) => Err(SocketError::Live),
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => Err(SocketError::Live),
        Err(error) if matches!(error.kind(), io::ErrorKind::ConnectionRefused | io::ErrorKind::NotFound) => Ok(()),
        Err(error) => Err(SocketError::Unclear(error)),
    }
}

/// A folder of our own on the same file system, which goes with this value.
struct PrivateFolder(PathBuf);

impl PrivateFolder {
    fn beside(path: &Path) -> Result<Self, SocketError> {
        let folder = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or_else(|| Path::new("."));
        let mut last = io::Error::from(io::ErrorKind::AlreadyExists);
        for n in 0..TRIES {
            let private = folder.join(format!(".{:x}{n:x}", process::id()));
            match fs::DirBuilder::new().mode(0o700).create(&private) {
                Ok(()) => return Ok(Self(private)),
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => last = error,
                Err(error) => return Err(SocketError::Folder(error)),
            }
        }
        Err(SocketError::Folder(last))
    }
}

impl Drop for PrivateFolder {
    fn drop(&mut self) {
        // A socket is in it only where it could not be moved.
        _ = fs::remove_dir_all(&self.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(path: &Path) -> Cs3Socket {
        Cs3Socket { path: path.to_owned(), mode: "0660".to_owned(), group: None }
    }

    #[tokio::test]
    async fn what_an_earlier_run_left_is_replaced_and_whoever_lives_is_left_alone() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("cs3.sock");
        drop(std::os::unix::net::UnixListener::bind(&path).unwrap());
        assert!(path.exists(), "as after a kill -9");
        let (listener, file) = bind(&at(&path)).await.unwrap();
        UnixStream::connect(&path).await.unwrap();
        assert!(matches!(bind(&at(&path)).await, Err(SocketError::Live)));
        UnixStream::connect(&path).await.unwrap();
        drop((listener, file));
        assert!(!path.exists());
    }

    #[tokio::test]
    async fn what_is_no_socket_is_left_alone() {
        let folder = tempfile::tempdir().unwrap();
        let (path, link) = (folder.path().join("file"), folder.path().join("link"));
        fs::write(&path, "precious").unwrap();
        std::os::unix::fs::symlink(&path, &link).unwrap();
        for path in [&path, &link, &folder.path().to_owned()] {
            assert!(matches!(bind(&at(path)).await, Err(SocketError::NoSocket)), "{}", path.display());
        }
        assert_eq!(fs::read_to_string(&path).unwrap(), "precious");
        assert!(matches!(bind(&at(&folder.path().join("nowhere/cs3.sock"))).await, Err(SocketError::Folder(_))));
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 2, "nothing is left behind");
    }

    #[tokio::test]
    async fn a_file_that_someone_else_has_put_there_is_not_removed() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("cs3.sock");
        let (_listener, file) = bind(&at(&path)).await.unwrap();
        fs::remove_file(&path).unwrap();
        let _other = UnixListener::bind(&path).unwrap();
        drop(file);
        assert!(path.exists());
    }

    #[tokio::test]
    async fn modes_and_groups_are_parsed_and_never_guessed() {
        assert_eq!((mode("0660").unwrap(), mode("600").unwrap()), (0o660, 0o600));
        for wrong in ["", "660u", "0o660", "888", "1777", "06600", "rw-rw----", "+660"] {
            assert!(mode(wrong).is_err(), "{wrong}");
        }
        let folder = tempfile::tempdir().unwrap();
        let config = Cs3Socket { group: Some("no-such-group".to_owned()), ..at(&folder.path().join("cs3.sock")) };
        assert!(matches!(bind(&config).await, Err(SocketError::NoGroup(_))));
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
    }
}
