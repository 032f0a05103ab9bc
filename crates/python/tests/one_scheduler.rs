//! Rust and Python tasks in one scheduler: each waits for the other, and values, errors and
//! cancellations cross between them.

use std::ffi::CString;
use std::sync::{Mutex, OnceLock};
use std::time::Duration;

use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};
use tiffany::{TaskError, Value, binding};
use tiffany_py::Program;

/// Notes by the Rust programs, for the tests to read.
static SEEN: Mutex<Vec<String>> = Mutex::new(Vec::new());

fn saw(text: &str) {
    SEEN.lock().unwrap().push(text.into());
}

/// Creates a Rust program that sleeps, and returns a value of this kind.
#[pyfunction]
fn rust(kind: &str) -> Program {
    let kind = kind.to_string();
    Program::new(move || {
        binding::from_future(async move {
            tiffany::sleep(Duration::from_millis(1)).await;
            match kind.as_str() {
                "int" => Ok(Value::new(42i64)),
                "float" => Ok(Value::new(0.5)),
                "text" => Ok(Value::new(String::from("text"))),
                "nothing" => Ok(Value::Unit),
                "strange" => Ok(Value::new(vec![1u8])),
                "fails" => Err(TaskError::failed("no luck in Rust")),
                "panics" => panic!("on purpose"),
                other => panic!("there is no {other}"),
            }
        })
    })
}

/// Creates a program whose coroutine cannot be created.
#[pyfunction]
fn broken() -> Program {
    Program::new(|| panic!("made badly"))
}

/// Creates a program that waits until it is cancelled, and records that.
#[pyfunction]
fn sleeper() -> Program {
    struct Dropped;
    impl Drop for Dropped {
        fn drop(&mut self) {
            saw("dropped");
        }
    }
    Program::new(|| {
        binding::from_future(async {
            let _dropped = Dropped;
            tiffany::sleep(Duration::from_secs(60)).await;
            Ok(Value::Unit)
        })
    })
}

/// Creates a program that runs a Python program as a task, and returns its value twice.
#[pyfunction]
fn waits_for(program: Py<PyAny>) -> Program {
    Program::new(move || {
        binding::from_future(async move {
            let coroutine = Python::attach(|py| tiffany_py::coroutine(program.bind(py)));
            let coroutine = coroutine.map_err(|error| TaskError::failed(error.to_string()))?;
            let task = binding::spawn(coroutine).await;
            let value: Value = tiffany::wait(&task).await?;
            Python::attach(|py| {
                let object = tiffany_py::from_value(py, value).expect("what Python gave it knows");
                Ok(tiffany_py::to_value(
                    PyList::new(py, [&object, &object]).expect("a list").into_any(),
                ))
            })
        })
    })
}

/// Runs this code, which can use the functions above and the package, and returns its `result`.
fn python(code: &str) -> String {
    static ONE_AT_A_TIME: OnceLock<Mutex<()>> = OnceLock::new();
    let _one = ONE_AT_A_TIME.get_or_init(Mutex::default).lock().unwrap_or_else(|p| p.into_inner());
    Python::attach(|py| {
        let sys = py.import("sys").unwrap();
        let modules = sys.getattr("modules").unwrap();
        if !modules.contains("tiffany._core").unwrap() {
            let source = concat!(env!("CARGO_MANIFEST_DIR"), "/../../python");
            sys.getattr("path").unwrap().call_method1("insert", (0, source)).unwrap();
            modules.set_item("tiffany._core", tiffany_py::module(py)).unwrap();
        }
        let globals = PyDict::new(py);
        py.run(c"from tiffany.calls import *\nfrom tiffany.errors import *\nfrom tiffany import *\nimport tiffany", Some(&globals), None).unwrap();
        for function in [
            wrap_pyfunction!(rust, py),
            wrap_pyfunction!(broken, py),
            wrap_pyfunction!(sleeper, py),
            wrap_pyfunction!(waits_for, py),
        ] {
            let function = function.unwrap();
            globals.set_item(function.getattr("__name__").unwrap(), function).unwrap();
        }
        let code = CString::new(code).unwrap();
        if let Err(error) = py.run(&code, Some(&globals), None) {
            error.print(py);
            panic!("the code failed");
        }
        globals.get_item("result").unwrap().expect("there is a result").to_string()
    })
}

#[test]
fn python_waits_for_rust() {
    let result = python(
        r#"
async def main():
    spawned = await spawn(rust("int"))
    return [await spawned, await call(rust("float")), await gather([await spawn(rust("text"))]),
            await wait(await spawn(rust("nothing"))), await timeout(10, rust("int"))]
result = run(main())
"#,
    );
    assert_eq!(result, "[42, 0.5, ['text'], None, 42]");
}

#[test]
fn a_generator_calls_rust_by_yielding_it() {
    let result = python(
        r#"
def main():
    return (yield rust("int")) + (yield Wait((yield Spawn(rust("int")))))
result = run(main())
"#,
    );
    assert_eq!(result, "84");
}

#[test]
fn a_program_of_rust_is_a_root_too() {
    assert_eq!(python("result = run(rust('text'))"), "text");
}

#[test]
fn rust_waits_for_python() {
    let result = python(
        r#"
async def child():
    await sleep(0.001)
    return {"any": "object"}
async def main():
    return await call(waits_for(child()))
result = run(main())
"#,
    );
    assert_eq!(result, "[{'any': 'object'}, {'any': 'object'}]");
}

#[test]
fn an_exception_comes_back_through_rust_as_it_was() {
    let result = python(
        r#"
error = ValueError("here")
async def child():
    await yield_now()
    raise error
async def main():
    try:
        await call(waits_for(child()))
    except ValueError as caught:
        return caught is error
result = run(main())
"#,
    );
    assert_eq!(result, "True");
}

#[test]
fn errors_of_rust_are_exceptions_with_a_code() {
    let result = python(
        r#"
async def main():
    seen = []
    for kind in ("fails", "panics", "strange"):
        try:
            await call(rust(kind))
        except TiffanyError as error:
            seen.append((type(error).__name__, error.code))
            if kind != "strange":
                assert {"fails": "no luck in Rust", "panics": "on purpose"}[kind] in str(error)
    return seen
result = run(main())
"#,
    );
    let expected = "[('TiffanyError', 'TFY0001'), ('PanickedError', 'TFY0002'), ('WrongTypeError', 'TFY0021')]";
    assert_eq!(result, expected);
}

#[test]
fn a_panic_between_the_languages_ends_one_task() {
    let result = python(
        r#"
async def child():
    await spawn(broken())
async def main():
    task = await spawn(child())
    try:
        await task
    except tiffany.errors.PanickedError as error:
        return error.code, "made badly" in str(error), await call(rust("int"))
result = run(main())
"#,
    );
    assert_eq!(result, "('TFY0002', True, 42)");
}

#[test]
fn cancelling_who_calls_rust_drops_it() {
    SEEN.lock().unwrap().clear();
    let result = python(
        r#"
async def calls():
    await call(sleeper())
async def main():
    tasks = [await spawn(calls()), await spawn(sleeper())]
    for _ in range(5):
        await yield_now()
    for task in tasks:
        await cancel(task)
    return [type(settled.error).__name__ for settled in await gather_settled(tasks)]
result = run(main())
"#,
    );
    assert_eq!(result, "['TaskCancelledError', 'TaskCancelledError']");
    assert_eq!(*SEEN.lock().unwrap(), ["dropped", "dropped"]);
}

#[test]
fn a_program_of_rust_runs_once() {
    let result = python(
        r#"
async def main():
    program = rust("int")
    first = await call(program)
    try:
        await call(program)
    except AlreadyBegunError as error:
        return first, error.code
result = run(main())
"#,
    );
    assert_eq!(result, "(42, 'TFY0048')");
}
