package kserve

import (
	"cmp"
	"net/url"
	"strconv"

	"github.com/edgewise-ai/edgewise"
)

// HeaderSequence is the header, and the metadata of gRPC, by which proxies send the requests of a sequence to one box: they do not
// read bodies. The box ignores it.
const HeaderSequence = "Edgewise-Sequence"

// SequenceHeader is the value of HeaderSequence for the requests of a sequence: its number, or its name with percent-encoding.
func SequenceHeader(s edgewise.Sequence) string {
	return cmp.Or(url.QueryEscape(s.Name), strconv.FormatUint(s.ID, 10))
}
