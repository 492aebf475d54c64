package edgewise

// Documents keeps what belongs to the box and not to a model: accounts, logs, drafts. It is safe for concurrent use.
type Documents interface {
	// View lets fn read one state.
	View(fn func(tx DocumentsTx) error) error
	// Update lets fn change documents: all of it is on disk when Update returns nil, and none of it otherwise. Errors:
	// those of fn, Exhausted when the disk is full, Internal.
	Update(fn func(tx DocumentsTx) error) error
}

// DocumentsTx reads and changes documents in one step. A document is bytes under a bucket and a key. What is returned
// is valid until the transaction ends. A bucket either has keys or is appended to.
type DocumentsTx interface {
	// Get returns a document, nil when there is none.
	Get(bucket, key string) []byte
	// Put stores a document, in place of one that is there.
	Put(bucket, key string, value []byte) error
	// Delete removes a document; it may be missing.
	Delete(bucket, key string) error
	// Each calls fn for every document of a bucket, by key, until fn returns an error.
	Each(bucket string, fn func(key string, value []byte) error) error

	// Append stores a document under the next number of its bucket, from 1 on. encode gets the number.
	Append(bucket string, encode func(number uint64) ([]byte, error)) (uint64, error)
	// Backward calls fn for what was appended, latest first, as long as fn returns true; only what has a smaller number
	// than before, unless that is 0.
	Backward(bucket string, before uint64, fn func(number uint64, value []byte) bool)
	// Forward calls fn for what was appended, oldest first, as long as fn returns true.
	Forward(bucket string, fn func(number uint64, value []byte) bool)
	// Drop removes the oldest n documents that were appended to a bucket.
	Drop(bucket string, n int) error
}
