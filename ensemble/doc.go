// Package ensemble runs models that are made of models. It checks the graph that an ensemble's steps make, pins the
// versions they run, and answers requests as a dataflow: a step runs as soon as its tensors are there, steps that do
// not need each other run at the same time, and steps that the wanted outputs do not need do not run.
//
// Every step asks its model through the Inferer that the ensemble was given, so it stands in its model's own queue and
// shares batches with everybody else's requests.
//
// Each response of a decoupled step is a pass: a run of the steps behind it, with a response of its own. The tensors
// from before the step are borrowed by all of its passes.
//
// Who owns the bytes. The inputs of the request are borrowed from the caller until Infer returns. The outputs of a step
// belong to its model's response; the tensors of the steps behind it alias that memory and nothing is copied. A
// response is released when the last step that needs one of its tensors has returned, or, when a tensor of it is an
// output of the ensemble, when the ensemble's own response is released. Tensors that the ensemble makes itself (the
// join of several answers of a fan-out, default outputs, an input that a default hands through to an output) are
// ordinary memory. Nobody writes to the bytes of a tensor that is there.
package ensemble
