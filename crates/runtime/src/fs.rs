//! Files. The system can't report when a file is ready, so each operation runs on a thread of the
//! pool, and its result comes as a completion. If the task is cancelled meanwhile, the operation
//! still finishes.

use std::fs;
use std::future::Future;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::calls::call::{Moved, TryCall};
use crate::calls::sys::blocking;
use crate::io::source::into_io_error;

/// The most bytes that one operation moves through the pool.
const MAX_CHUNK_BYTES: usize = 1024 * 1024;

/// Awaits a call to the pool whose own result can be an error.
async fn finish<T: 'static>(call: TryCall<io::Result<T>, Moved>) -> io::Result<T> {
    call.await.map_err(into_io_error)?
}

macro_rules! path_operation {
    ($(#[$doc:meta])* $name:ident -> $output:ty) => {
        $(#[$doc])*
        #[track_caller]
        pub fn $name(path: impl AsRef<Path>) -> impl Future<Output = io::Result<$output>> {
            let path = path.as_ref().to_owned();
            finish(blocking(move || fs::$name(path)))
        }
    };
}

path_operation! {
    /// Reads a whole file.
    ///
    /// ```
    /// tiffany::try_run(async {
    ///     assert!(!tiffany::fs::read("/proc/self/comm").await?.is_empty());
    ///     Ok::<(), std::io::Error>(())
    /// })?;
    /// # Ok::<(), tiffany::RunError>(())
    /// ```
    read -> Vec<u8>
}
path_operation! {
    /// Reads a whole text file.
    read_to_string -> String
}
path_operation! {
    /// Creates a directory and its parents.
    create_dir_all -> ()
}
path_operation! {
    /// Removes a file.
    remove_file -> ()
}
path_operation! {
    /// The metadata of a file.
    metadata -> fs::Metadata
}

/// Writes a whole file, replacing its contents.
///
/// ```
/// use tiffany::fs;
///
/// tiffany::try_run(async {
///     let path = std::env::temp_dir().join(format!("tiffany-doc-{}.txt", std::process::id()));
///     fs::write(&path, "some text").await?;
///     assert_eq!(fs::read_to_string(&path).await?, "some text");
///     fs::remove_file(&path).await
/// })?;
/// # Ok::<(), tiffany::RunError>(())
/// ```
#[track_caller]
pub fn write(
    path: impl AsRef<Path>,
    contents: impl AsRef<[u8]>,
) -> impl Future<Output = io::Result<()>> {
    let (path, contents) = (path.as_ref().to_owned(), contents.as_ref().to_owned());
    finish(blocking(move || fs::write(path, contents)))
}

/// Renames a file, replacing a file that has the new name.
#[track_caller]
pub fn rename(
    from: impl AsRef<Path>,
    to: impl AsRef<Path>,
) -> impl Future<Output = io::Result<()>> {
    let (from, to) = (from.as_ref().to_owned(), to.as_ref().to_owned());
    finish(blocking(move || fs::rename(from, to)))
}

/// The paths in a directory, sorted, because the system's order is arbitrary.
#[track_caller]
pub fn read_dir(path: impl AsRef<Path>) -> impl Future<Output = io::Result<Vec<PathBuf>>> {
    let path = path.as_ref().to_owned();
    finish(blocking(move || {
        let entries = fs::read_dir(path)?.map(|entry| entry.map(|entry| entry.path()));
        let mut paths = entries.collect::<io::Result<Vec<PathBuf>>>()?;
        paths.sort();
        Ok(paths)
    }))
}

/// An open file. Operations of several tasks on one file happen in the order in which the pool gets
/// to them; a task that needs its own position must open the file itself.
///
/// ```
/// use std::io::SeekFrom;
/// use tiffany::fs::File;
///
/// tiffany::try_run(async {
///     let path = std::env::temp_dir().join(format!("tiffany-doc-{}.bin", std::process::id()));
///     let file = File::create(&path).await?;
///     file.write_all(b"0123456789").await?;
///     file.seek(SeekFrom::Start(4)).await?;
///     let mut bytes = [0; 3];
///     file.read_exact(&mut bytes).await?;
///     assert_eq!(&bytes, b"456");
///     tiffany::fs::remove_file(&path).await
/// })?;
/// # Ok::<(), tiffany::RunError>(())
/// ```
#[derive(Debug)]
pub struct File {
    file: Arc<fs::File>,
}

impl File {
    /// Opens a file for reading.
    #[track_caller]
    pub fn open(path: impl AsRef<Path>) -> impl Future<Output = io::Result<File>> {
        File::open_with(fs::OpenOptions::new().read(true), path)
    }

    /// Creates or truncates a file, for writing and reading.
    #[track_caller]
    pub fn create(path: impl AsRef<Path>) -> impl Future<Output = io::Result<File>> {
        let mut options = fs::OpenOptions::new();
        File::open_with(options.read(true).write(true).create(true).truncate(true), path)
    }

    /// Opens a file with these options.
    #[track_caller]
    pub fn open_with<P: AsRef<Path>>(
        options: &fs::OpenOptions,
        path: P,
    ) -> impl Future<Output = io::Result<File>> + use<P> {
        let (options, path) = (options.clone(), path.as_ref().to_owned());
        let call = blocking(move || options.open(path));
        async move { finish(call).await.map(File::from) }
    }

    /// Reads some bytes, at most as many as `buffer` holds. Returns 0 at the end of the file.
    ///
    /// If the task is cancelled meanwhile, the bytes that were read are lost.
    #[track_caller]
    pub fn read(&self, buffer: &mut [u8]) -> impl Future<Output = io::Result<usize>> {
        let wanted = buffer.len().min(MAX_CHUNK_BYTES);
        let call = self.with(move |mut file| {
            let mut bytes = vec![0; wanted];
            let count = file.read(&mut bytes)?;
            bytes.truncate(count);
            Ok(bytes)
        });
        async move {
            let bytes = finish(call).await?;
            buffer[..bytes.len()].copy_from_slice(&bytes);
            Ok(bytes.len())
        }
    }

    /// Fills `buffer`. If the file ends before, the error is of kind `UnexpectedEof`.
    #[track_caller]
    pub fn read_exact(&self, buffer: &mut [u8]) -> impl Future<Output = io::Result<()>> {
        let wanted = buffer.len();
        let call = self.with(move |mut file| {
            let mut bytes = vec![0; wanted];
            file.read_exact(&mut bytes).map(|()| bytes)
        });
        async move {
            buffer.copy_from_slice(&finish(call).await?);
            Ok(())
        }
    }

    /// Reads to the end of the file, and returns how many bytes were added to `bytes`.
    #[track_caller]
    pub fn read_to_end(&self, bytes: &mut Vec<u8>) -> impl Future<Output = io::Result<usize>> {
        let call = self.with(|mut file| {
            let mut rest = Vec::new();
            file.read_to_end(&mut rest).map(|_| rest)
        });
        async move {
            let rest = finish(call).await?;
            bytes.extend_from_slice(&rest);
            Ok(rest.len())
        }
    }

    /// Writes some of the bytes, and returns how many.
    #[track_caller]
    pub fn write(&self, bytes: &[u8]) -> impl Future<Output = io::Result<usize>> + use<> {
        let bytes = bytes[..bytes.len().min(MAX_CHUNK_BYTES)].to_vec();
        finish(self.with(move |mut file| file.write(&bytes)))
    }

    /// Writes all bytes.
    #[track_caller]
    pub fn write_all(&self, bytes: &[u8]) -> impl Future<Output = io::Result<()>> + use<> {
        let bytes = bytes.to_vec();
        finish(self.with(move |mut file| file.write_all(&bytes)))
    }

    /// Moves to a position in the file, and returns its distance from the beginning.
    #[track_caller]
    pub fn seek(&self, to: SeekFrom) -> impl Future<Output = io::Result<u64>> + use<> {
        finish(self.with(move |mut file| file.seek(to)))
    }

    /// Waits until the contents and the metadata of the file are on the disk.
    #[track_caller]
    pub fn sync_all(&self) -> impl Future<Output = io::Result<()>> + use<> {
        finish(self.with(|file| file.sync_all()))
    }

    /// The metadata of the file.
    #[track_caller]
    pub fn metadata(&self) -> impl Future<Output = io::Result<fs::Metadata>> + use<> {
        finish(self.with(|file| file.metadata()))
    }

    #[track_caller]
    fn with<T: Send + 'static>(
        &self,
        act: impl FnOnce(&fs::File) -> io::Result<T> + Send + 'static,
    ) -> TryCall<io::Result<T>, Moved> {
        let file = Arc::clone(&self.file);
        blocking(move || act(&file))
    }
}

impl From<fs::File> for File {
    fn from(file: fs::File) -> File {
        File { file: Arc::new(file) }
    }
}
