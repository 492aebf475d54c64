//! The exports and imports of the ABI.

use crate::{Error, List, Outputs, Result};
use std::alloc::{dealloc, Layout};
use std::cell::RefCell;

#[link(wasm_import_module = "edgewise_v1")]
extern "C" {
    #[link_name = "log"]
    fn import_log(level: i32, text: *const u8, len: usize);
    #[link_name = "fail"]
    fn import_fail(text: *const u8, len: usize);
    #[link_name = "parameter"]
    fn import_parameter(name: *const u8, len: usize, dst: *mut u8, cap: usize) -> i32;
    #[link_name = "infer"]
    fn import_infer(model: *const u8, len: usize, inputs: u32) -> u32;
    #[link_name = "emit"]
    fn import_emit(outputs: u32) -> i32;
    #[link_name = "last_error"]
    fn import_last_error(dst: *mut u8, cap: usize) -> i32;
}

/// What lives until the request ends.
#[derive(Default)]
struct Request {
    blocks: Vec<(*mut u8, Layout)>,
    lists: Vec<Outputs>,
}

thread_local! {
    static REQUEST: RefCell<Request> = RefCell::new(Request::default());
}

/// Answers edgewise_step_v1.
pub fn start() {
    std::panic::set_hook(Box::new(|info| {
        let text = info.to_string().replace('\n', " ");
        log(Level::Error, &text);
        // Safety: the box reads the text before it returns. It adds it to the error of the trap that follows.
        unsafe { import_fail(text.as_ptr(), text.len()) };
    }));
}

/// Answers edgewise_alloc.
pub fn alloc(size: u32, align: u32) -> *mut u8 {
    let layout = match Layout::from_size_align(size.max(1) as usize, align.max(1) as usize) {
        Ok(layout) => layout,
        Err(_) => return std::ptr::null_mut(),
    };
    // Safety: the size is not 0.
    let block = unsafe { std::alloc::alloc(layout) };
    if !block.is_null() {
        REQUEST.with(|r| r.borrow_mut().blocks.push((block, layout)));
    }
    block
}

/// Answers edgewise_reset.
pub fn reset() {
    let request = REQUEST.with(|r| r.take());
    for (block, layout) in request.blocks {
        // Safety: from alloc, with this layout, and freed once.
        unsafe { dealloc(block, layout) }
    }
}

/// Answers edgewise_describe.
pub fn describe(json: &str) -> *const u8 {
    let block = alloc(4 + json.len() as u32, 8);
    if !block.is_null() {
        // Safety: the block has room for both.
        unsafe {
            (block as *mut u32).write(json.len() as u32);
            std::ptr::copy_nonoverlapping(json.as_ptr(), block.add(4), json.len());
        }
    }
    block
}

/// Answers edgewise_process.
pub fn run(inputs: u32, process: impl FnOnce(&List) -> Result<Outputs>) -> u32 {
    // Safety: the box calls with a list of the ABI that stays until edgewise_reset.
    match process(&unsafe { List::at(inputs) }) {
        Ok(outputs) => keep(outputs),
        Err(e) => {
            // Safety: the box reads the text before it returns.
            unsafe { import_fail(e.0.as_ptr(), e.0.len()) };
            0
        }
    }
}

fn keep(mut list: Outputs) -> u32 {
    let at = list.encode();
    REQUEST.with(|r| r.borrow_mut().lists.push(list));
    at
}

/// How important a line of the log is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Level {
    Debug = 0,
    Info = 1,
    Warning = 2,
    Error = 3,
}

/// Writes a line to the step's log. The box limits their rate and their length.
pub fn log(level: Level, text: &str) {
    // Safety: the box reads the text before it returns.
    unsafe { import_log(level as i32, text.as_ptr(), text.len()) }
}

/// The text of a parameter of the request, else of the model's configuration.
pub fn parameter(name: &str) -> Option<String> {
    // Safety: the box writes at most as many bytes as there is room for.
    unsafe {
        let len = usize::try_from(import_parameter(name.as_ptr(), name.len(), std::ptr::null_mut(), 0)).ok()?;
        let mut text = vec![0; len];
        import_parameter(name.as_ptr(), name.len(), text.as_mut_ptr(), len);
        String::from_utf8(text).ok()
    }
}

/// Runs another model on `inputs`, through that model's own queue. The answer is read in place.
pub fn infer(model: &str, inputs: Outputs) -> Result<List> {
    // Safety: the box answers with a list in memory from edgewise_alloc, which stays until edgewise_reset.
    match unsafe { import_infer(model.as_ptr(), model.len(), keep(inputs)) } {
        0 => Err(last_error()),
        at => Ok(unsafe { List::at(at) }),
    }
}

/// Sends `outputs` as a response of a decoupled model. It waits while the client reads slowly.
pub fn emit(mut outputs: Outputs) -> Result<()> {
    // Safety: the box has read the list when it returns.
    match unsafe { import_emit(outputs.encode()) } {
        0 => Ok(()),
        _ => Err(last_error()),
    }
}

/// The reason of the last import that failed in this request.
pub fn last_error() -> Error {
    // Safety: the box writes at most as many bytes as there is room for.
    unsafe {
        let len = import_last_error(std::ptr::null_mut(), 0).max(0) as usize;
        let mut text = vec![0; len];
        import_last_error(text.as_mut_ptr(), len);
        Error(String::from_utf8_lossy(&text).into_owned())
    }
}
