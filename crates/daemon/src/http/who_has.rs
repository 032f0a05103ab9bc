//! Finds the process that uses a port, as far as this user can see: the socket in `/proc/net`, and
//! the process that has it open.

use std::fs;
use std::net::SocketAddr;

/// Returns a description such as `process 123 (nginx)`, if the process is visible.
pub(super) fn who_has(address: SocketAddr) -> Option<String> {
    let inode = ["/proc/net/tcp", "/proc/net/tcp6"].iter().find_map(|table| {
        let table = fs::read_to_string(table).ok()?;
        table.lines().find_map(|line| listening(line, address.port()).map(str::to_owned))
    })?;
    let wanted = format!("socket:[{inode}]");
    for process in fs::read_dir("/proc").ok()?.flatten() {
        let name = process.file_name();
        let Some(pid) = name.to_str().and_then(|name| name.parse::<u32>().ok()) else { continue };
        let Ok(open) = fs::read_dir(process.path().join("fd")) else { continue };
        let has = |file: fs::DirEntry| {
            fs::read_link(file.path()).is_ok_and(|target| target.as_os_str() == wanted.as_str())
        };
        if open.flatten().any(has) {
            let name = fs::read_to_string(process.path().join("comm")).unwrap_or_default();
            let name: String = name.trim().chars().filter(|c| !c.is_control()).collect();
            return Some(format!("process {pid} ({name})"));
        }
    }
    None
}

/// Returns the inode of the socket in this line if it listens on this port. State `0A` means
/// listening.
fn listening(line: &str, port: u16) -> Option<&str> {
    let fields: Vec<&str> = line.split_whitespace().collect();
    let (_, local) = fields.get(1)?.rsplit_once(':')?;
    let is_it = u16::from_str_radix(local, 16) == Ok(port) && *fields.get(3)? == "0A";
    fields.get(9).copied().filter(|_| is_it)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_is_found_by_its_port() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let found = who_has(address).unwrap();
        assert!(found.starts_with(&format!("process {} (", std::process::id())), "{found}");
        drop(listener);
        assert_eq!(who_has(address), None);
    }
}
