// Package edgewise holds the types that every part of the appliance shares, and nothing that runs.
//
// In one sentence: everything a client can call is a [Model]; everything that runs a model is a [Servable]; every
// package knows the types of this package and few others; only package appliance knows all packages.
//
// The words:
//
//   - Tensor: a named, typed, dense block of bytes. Spec: what a tensor must look like.
//   - Model: what its author declares, in the field names of Triton's ModelConfig.
//   - Version: one immutable upload of a model: its declaration, its files, one digest over both.
//   - Label: a movable name for a version. The label "live" answers requests that name no version.
//   - Backend: loads versions of one platform. Inspection: what a backend reads out of files without loading them.
//   - Instance: a loaded version, ready to run. Device: where it runs.
//   - Scheduler: the queue in front of an instance. Instance loop: one of its goroutines, which runs batches.
//   - Servable: a version that answers requests; the manager finds the one for a request.
//   - Request, Response: one inference, in and out.
//   - Sequence: requests that belong together and run in order. State: what one of them leaves behind for the next.
//     Slot: a place for a sequence in an instance. Backlog: sequences that wait for a slot. Sequence batcher: a
//     Servable in front of a scheduler that keeps sequences.
//   - Step: a model inside an ensemble, which is a model made of models. Pin: the exact version that a step runs.
//   - Status: the state of a version. Statistics: what was measured about it.
//   - Kind: the one classification of errors, which only the frontends turn into protocol codes.
package edgewise
