// Package kserve holds the bodies of the inference protocol's REST form, in both directions: the frontend of the box
// reads requests and writes responses with it, the Go client writes requests and reads responses.
//
// The JSON part of a body is read by a scanner of its own that puts the elements of a tensor straight into the memory
// the runtime reads. It is strict: what RFC 8259 does not allow is refused, with two exceptions in tensors of a
// floating type, where the bare words NaN, Infinity and -Infinity are read and written, as other servers of the
// protocol do. Numbers are read exactly: every value has the bits that strconv.ParseFloat or strconv.ParseInt gives.
//
// Source: the inference protocol's REST document and its extensions for binary tensor data, classification, parameters,
// statistics and the model repository. Where clients match on the text of an error, the text is the one they know.
package kserve
