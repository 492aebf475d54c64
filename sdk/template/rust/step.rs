//! STEPNAME: multiplies every element of x. Begin here.

use edgewise::{List, Outputs, Result};

const DESCRIPTION: &str = r#"{
  "name": "STEPNAME", "version": "1.0.0",
  "inputs": [{"name": "x", "datatype": "FP32", "shape": [-1, -1]}],
  "outputs": [{"name": "y", "datatype": "FP32", "shape": [-1, -1]}],
  "parameters": [{"name": "factor", "default": "2", "description": "what to multiply by"}]
}"#;

fn process(inputs: &List) -> Result<Outputs> {
    let x = inputs.get::<f32>("x")?;
    let factor = edgewise::number_parameter("factor", 2.0f32, -1e6, 1e6)?;
    let mut outputs = Outputs::new();
    outputs.push("y", x.shape(), x.values().iter().map(|v| v * factor).collect());
    Ok(outputs)
}

edgewise::step!(process, DESCRIPTION);
