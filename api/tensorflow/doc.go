// Package tensorflow holds the bodies of TensorFlow Serving's REST interface, version 1, which KServe's v1 protocol is a
// part of: predictions in row and column form, classification, regression, the status and the metadata of models.
//
// Source: TensorFlow Serving's "RESTful API" and tensorflow_serving/util/json_tensor.cc; KServe's "V1 Inference
// Protocol".
package tensorflow
