//! Reads the sound, brings it to rate unless that is 0, and cuts it into frames: package sdk's test of the sound helpers.

use edgewise::{Error, List, Outputs, Result};

const DESCRIPTION: &str = r#"{"name": "sound", "version": "1.0.0", "inputs": [{"name": "sound", "datatype": "BYTES", "shape": [1]}],
  "outputs": [{"name": "rate", "datatype": "INT32", "shape": [1]}, {"name": "samples", "datatype": "FP32", "shape": [-1]},
    {"name": "frames", "datatype": "FP32", "shape": [-1]}],
  "parameters": [{"name": "rate"}, {"name": "limit"}, {"name": "width"}, {"name": "hop"}, {"name": "before"}, {"name": "after"}]}"#;

fn number(name: &str) -> Result<u32> {
    edgewise::number_parameter(name, 0, 0, u32::MAX)
}

fn process(inputs: &List) -> Result<Outputs> {
    let file = inputs.get_bytes("sound")?.elements().next().ok_or_else(|| Error::new("no sound"))?;
    let (rate, limit) = (number("rate")?, number("limit")?);
    let mut sound = edgewise::read_sound(file, limit)?;
    if rate != 0 {
        sound = sound.resample(rate, limit)?;
    }
    let frames = sound.frames(number("width")?, number("hop")?, number("before")?, number("after")?, limit)?;
    let mut outputs = Outputs::new();
    outputs.push("rate", &[1], vec![sound.rate as i32]);
    outputs.push("samples", &[sound.samples.len() as i64], sound.samples);
    outputs.push("frames", &[frames.len() as i64], frames);
    Ok(outputs)
}

edgewise::step!(process, DESCRIPTION);
