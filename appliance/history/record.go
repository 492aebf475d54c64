package history

import (
	"encoding/binary"
	"time"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/appliance/activity"
)

// maxNameBytes bounds the name of a model or a caller in a record; a longer one is cut.
const maxNameBytes = 255

// appendRecord appends a sample as a record: two names with their lengths, and numbers as varints. The buckets of the
// times are pairs of the distance to the bucket before and the count.
func appendRecord(b []byte, s *activity.Sample) []byte {
	b = appendName(appendName(b, s.Model.Name), s.Caller)
	for _, n := range []uint64{
		uint64(s.Model.Version), s.Requests, s.Failed, s.Refused, uint64(max(0, s.Queue.Microseconds())),
	} {
		b = binary.AppendUvarint(b, n)
	}
	used := 0
	for _, n := range s.Times {
		if n > 0 {
			used++
		}
	}
	b = binary.AppendUvarint(b, uint64(used))
	last := 0
	for bucket, n := range s.Times {
		if n > 0 {
			b = binary.AppendUvarint(binary.AppendUvarint(b, uint64(bucket-last)), n)
			last = bucket
		}
	}
	return b
}

func appendName(b []byte, name string) []byte {
	name = name[:min(len(name), maxNameBytes)]
	return append(append(b, byte(len(name))), name...)
}

// reader reads records. A damaged record makes it end.
type reader struct {
	rest []byte
	bad  bool
}

func (r *reader) number() uint64 {
	n, size := binary.Uvarint(r.rest)
	if size <= 0 {
		r.rest, r.bad = nil, true
		return 0
	}
	r.rest = r.rest[size:]
	return n
}

func (r *reader) name() []byte {
	if len(r.rest) == 0 || len(r.rest) <= int(r.rest[0]) {
		r.rest, r.bad = nil, true
		return nil
	}
	name := r.rest[1 : 1+int(r.rest[0])]
	r.rest = r.rest[1+len(name):]
	return name
}

// record is a sample as it is read. The names are borrowed.
type record struct {
	model, caller []byte
	version       int64

	requests, failed, refused uint64
	queue                     time.Duration
	times                     []byte // the pairs; add reads them
	pairs                     uint64
}

// next reads a record; ok is false at the end.
func (r *reader) next() (v record, ok bool) {
	if len(r.rest) == 0 {
		return v, false
	}
	v.model, v.caller = r.name(), r.name()
	v.version = int64(r.number())
	v.requests, v.failed, v.refused = r.number(), r.number(), r.number()
	v.queue = time.Duration(r.number()) * time.Microsecond
	v.pairs = r.number()
	if v.pairs > activity.TimeBuckets {
		r.bad = true
	}
	from := r.rest
	for range v.pairs {
		if r.bad {
			break
		}
		r.number()
		r.number()
	}
	v.times = from[:len(from)-len(r.rest)]
	return v, !r.bad
}

// sums is what several records count together.
type sums struct {
	requests, failed, refused uint64
	queue                     time.Duration
	times                     activity.Times
}

func (s *sums) add(v *record) {
	s.requests += v.requests
	s.failed += v.failed
	s.refused += v.refused
	s.queue += v.queue
	pairs, bucket := reader{rest: v.times}, uint64(0)
	for range v.pairs {
		bucket += pairs.number()
		if n := pairs.number(); bucket < activity.TimeBuckets {
			s.times[bucket] += n
		}
	}
}

func (s *sums) sample(id edgewise.ModelID, caller string) activity.Sample {
	return activity.Sample{
		Model: id, Caller: caller, Requests: s.requests, Failed: s.failed, Refused: s.refused, Queue: s.queue, Times: s.times,
	}
}
