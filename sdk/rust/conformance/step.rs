//! The conformance step in Rust: what it does, and why, is in sdk/conformance/README.md.

use edgewise::{Error, Level, List, Outputs, Result};

const DESCRIPTION: &str = r#"{"name": "conformance", "version": "1.0.0", "description": "exercises the whole ABI",
  "inputs": [
    {"name": "bool", "datatype": "BOOL", "shape": [-1], "optional": true},
    {"name": "uint8", "datatype": "UINT8", "shape": [-1], "optional": true},
    {"name": "uint16", "datatype": "UINT16", "shape": [-1], "optional": true},
    {"name": "uint32", "datatype": "UINT32", "shape": [-1], "optional": true},
    {"name": "uint64", "datatype": "UINT64", "shape": [-1], "optional": true},
    {"name": "int8", "datatype": "INT8", "shape": [-1], "optional": true},
    {"name": "int16", "datatype": "INT16", "shape": [-1], "optional": true},
    {"name": "int32", "datatype": "INT32", "shape": [-1], "optional": true},
    {"name": "int64", "datatype": "INT64", "shape": [-1], "optional": true},
    {"name": "fp16", "datatype": "FP16", "shape": [-1], "optional": true},
    {"name": "fp32", "datatype": "FP32", "shape": [-1], "optional": true},
    {"name": "fp64", "datatype": "FP64", "shape": [-1], "optional": true},
    {"name": "bf16", "datatype": "BF16", "shape": [-1], "optional": true},
    {"name": "bytes", "datatype": "BYTES", "shape": [-1], "optional": true},
    {"name": "deep", "datatype": "FP32", "shape": [-1, -1, -1, -1], "optional": true},
    {"name": "scalar", "datatype": "FP64", "shape": [], "optional": true}],
  "outputs": [
    {"name": "bool", "datatype": "BOOL", "shape": [-1]},
    {"name": "uint8", "datatype": "UINT8", "shape": [-1]},
    {"name": "uint16", "datatype": "UINT16", "shape": [-1]},
    {"name": "uint32", "datatype": "UINT32", "shape": [-1]},
    {"name": "uint64", "datatype": "UINT64", "shape": [-1]},
    {"name": "int8", "datatype": "INT8", "shape": [-1]},
    {"name": "int16", "datatype": "INT16", "shape": [-1]},
    {"name": "int32", "datatype": "INT32", "shape": [-1]},
    {"name": "int64", "datatype": "INT64", "shape": [-1]},
    {"name": "fp16", "datatype": "FP16", "shape": [-1]},
    {"name": "fp32", "datatype": "FP32", "shape": [-1]},
    {"name": "fp64", "datatype": "FP64", "shape": [-1]},
    {"name": "bf16", "datatype": "BF16", "shape": [-1]},
    {"name": "bytes", "datatype": "BYTES", "shape": [-1]},
    {"name": "deep", "datatype": "FP32", "shape": [-1, -1, -1, -1]},
    {"name": "scalar", "datatype": "FP64", "shape": []}],
  "parameters": [{"name": "do", "description": "what to do"}]}"#;

fn process(inputs: &List) -> Result<Outputs> {
    let what = edgewise::parameter("do").unwrap_or_default();
    match what.as_str() {
        "echo" => Ok(echo(inputs, false)),
        "reverse" => Ok(echo(inputs, true)),
        "fail" => Err(Error(String::from_utf8_lossy(first(inputs)?).into_owned())),
        "type" => inputs.get::<i32>("fp32").map(|_| Outputs::new()),
        "parameter" => parameters(inputs),
        "log" => write_log(inputs),
        "infer" => Ok(echo(&infer(inputs)?, false)),
        "infer_twice" => Ok(echo(&infer(&infer(inputs)?)?, false)),
        "infer_error" => match infer(inputs) {
            Ok(_) => Err("the model answered".into()),
            Err(e) => {
                let mut outputs = Outputs::new();
                outputs.push_bytes("bytes", &[1], &[e.0]);
                Ok(outputs)
            }
        },
        "emit" => match edgewise::emit(echo(inputs, false)) {
            Ok(()) => Err("the response was sent".into()),
            Err(e) => {
                let mut outputs = Outputs::new();
                outputs.push_bytes("bytes", &[1], &[e.0]);
                Ok(outputs)
            }
        },
        "softmax" => softmax(inputs),
        "decode" => edgewise::Image::decode(first(inputs)?, 3).map(|_| Outputs::new()).map_err(|e| Error(format!("decode: {}", e))),
        _ => Err(format!("do {:?} is unknown", what).into()),
    }
}

fn echo(inputs: &List, reverse: bool) -> Outputs {
    let mut tensors: Vec<_> = inputs.iter().collect();
    if reverse {
        tensors.reverse();
    }
    let mut outputs = Outputs::new();
    for t in tensors {
        outputs.push_raw(t.name(), t.dtype(), t.shape(), t.data().to_vec());
    }
    outputs
}

fn first(inputs: &List) -> Result<&[u8]> {
    inputs.get_bytes("bytes")?.elements().next().ok_or_else(|| Error::new("input \"bytes\" is empty"))
}

fn parameters(inputs: &List) -> Result<Outputs> {
    let names = inputs.get_bytes("bytes")?.elements();
    let texts: Vec<String> = names.map(|name| edgewise::parameter(&String::from_utf8_lossy(name)).unwrap_or_else(|| "(none)".into())).collect();
    let mut outputs = Outputs::new();
    outputs.push_bytes("bytes", &[texts.len() as i64], &texts);
    Ok(outputs)
}

fn write_log(inputs: &List) -> Result<Outputs> {
    let levels = [Level::Debug, Level::Info, Level::Warning, Level::Error];
    for (i, line) in inputs.get_bytes("bytes")?.elements().enumerate() {
        edgewise::log(levels[i % 4], &String::from_utf8_lossy(line));
    }
    Ok(Outputs::new())
}

fn infer(inputs: &List) -> Result<List> {
    edgewise::infer(&edgewise::parameter("model").unwrap_or_default(), echo(inputs, false))
}

fn softmax(inputs: &List) -> Result<Outputs> {
    let x = inputs.get::<f32>("fp32")?;
    let mut y = x.values().to_vec();
    let cols = y.len();
    edgewise::softmax_rows(&mut y, cols)?;
    let mut outputs = Outputs::new();
    outputs.push("fp32", x.shape(), y);
    Ok(outputs)
}

edgewise::step!(process, DESCRIPTION);
