// Package wire reads and writes the two messages of the gRPC protocol that carry tensors, without making the generated
// message of them: the bytes of a tensor stay in the buffer of the message, and are sent from the memory of the
// runtime.
//
// Messages are read as the generated code reads them: unknown fields are skipped, the last of several values of a field
// counts, repeated numbers may be packed or not. A fuzz test holds the two against each other.
package wire
