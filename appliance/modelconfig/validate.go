package modelconfig

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/pattern"
)

// Bounds of a model's configuration.
const (
	MaxBatchSize   = 1 << 16 // elements of a batch
	MaxTensorName  = 512     // bytes of a tensor's name
	MaxInstances   = 64      // instances of a model, over all groups
	MaxQueueTime   = 86400e6 // microseconds of any delay or timeout of a queue: a day
	MaxMetricTags  = 16      // labels that a model adds to its metrics
	MaxTagValue    = 128     // bytes of such a label's value
	MaxWarmups     = 64      // warm-up requests, each counted once
	MaxWarmupCount = 1000    // repetitions of one warm-up request
	MaxWarmupBytes = 1 << 28 // bytes of one warm-up input, for the whole batch
	MaxThreads     = 256     // threads of an ONNX Runtime session
	MaxSequences   = 1 << 16 // sequences of a model that have a slot at a time, over all instances
	MaxStates      = 64      // implicit states of a model
	MaxStateBytes  = 1 << 26 // bytes of what one state begins with
	MaxBuckets     = 64      // buckets of a histogram that a model chooses
	MaxChecksums   = 1024    // files that a repository agent checks
	MaxResources   = 64      // resources that the rate limiter gives an instance
	MaxProblems    = 100     // problems told apart; the rest is counted
)

// Validate reports everything that is wrong with a complete model, one problem a line, each of them naming the model
// and the field: what contradicts itself, what the files or the signature in ins contradict, and what this build does
// not serve. files are the paths of the version's files. ins may be nil; then nothing is compared with it. Of d
// only the formats are used. The error is of kind Unsupported when that is all that is wrong, and Invalid otherwise.
func Validate(m *edgewise.Model, files []string, ins *edgewise.Inspection, d Defaults) error {
	if ins != nil && ins.Completed != nil { // the program behind it has made the configuration what it is
		ins = nil
	}
	c := &checker{m: m, files: files, ins: ins, formats: d.Formats}
	c.identity()
	c.inputs()
	c.outputs()
	c.instances()
	c.batching()
	c.sequences()
	c.batches()
	c.warmups()
	c.parameters()
	c.metricTags()
	c.metrics()
	c.agents()
	kind := edgewise.Invalid
	if len(c.problems) == 0 {
		kind = edgewise.Unsupported
	}
	for _, reason := range unsupported(m, d.Formats) {
		c.problem("%s", reason)
	}
	return c.err(kind)
}

// checker collects problems.
type checker struct {
	m        *edgewise.Model
	files    []string
	ins      *edgewise.Inspection
	formats  edgewise.Formats
	problems []string
	more     int // problems beyond MaxProblems
}

func (c *checker) problem(format string, args ...any) {
	if len(c.problems) == MaxProblems {
		c.more++
		return
	}
	c.problems = append(c.problems, fmt.Sprintf(format, args...))
}

func (c *checker) err(kind edgewise.Kind) error {
	if len(c.problems) == 0 {
		return nil
	}
	text := strings.Join(c.problems, fmt.Sprintf("\nmodel %q: ", c.m.Name))
	if c.more > 0 {
		text += fmt.Sprintf("\n... and %d more", c.more)
	}
	return fail(c.m.Name, kind, "%s", text)
}

// identity checks what the model is called, what runs it, and which versions of it are served.
func (c *checker) identity() {
	if err := edgewise.CheckName(c.m.Name); err != nil {
		c.problem("%v", err)
	}
	if f, ok := c.formats.Of(c.m); !ok || f.Backend != c.m.Backend {
		first := first(c.formats)
		c.problem("platform %q with backend %q is not served by this box: want %q with %q", c.m.Platform, c.m.Backend,
			first.Platform, first.Backend)
	}
	if f := c.m.DefaultModelFilename; f != "" && !modelFile(c.files, f, c.formats) {
		c.path("default_model_filename", f)
	}
	if n := c.m.MaxBatchSize; n < 0 || n > MaxBatchSize {
		c.problem("max_batch_size: want 0 to %d, got %d", MaxBatchSize, n)
	}
	c.versionPolicy()
}

// path checks that a file the configuration names may be named and is there.
func (c *checker) path(field, file string) {
	if err := edgewise.CheckPath(file); err != nil {
		c.problem("%s: %v", field, err)
	} else if !slices.Contains(c.files, file) {
		c.problem("%s: there is no file %q among the model's files", field, file)
	}
}

func (c *checker) versionPolicy() {
	p := c.m.VersionPolicy
	if p == nil {
		return
	}
	if set := count(p.Latest != nil, p.All != nil, p.Specific != nil); set != 1 {
		c.problem("version_policy: want exactly one of latest, all and specific, got %d", set)
	}
	if p.Latest != nil && p.Latest.NumVersions == 0 {
		c.problem("version_policy: latest: num_versions: want 1 or more, got 0")
	}
	if p.Specific != nil {
		c.specificVersions(p.Specific.Versions)
	}
}

func (c *checker) specificVersions(versions []int64) {
	if len(versions) == 0 {
		c.problem("version_policy: specific: versions is empty: want at least one")
	}
	for i, v := range versions {
		if v < 1 {
			c.problem("version_policy: specific: versions are 1 or more, got %d", v)
		}
		if slices.Contains(versions[:i], v) {
			c.problem("version_policy: specific: version %d is listed twice", v)
		}
	}
}

var tagKey = pattern.New(`^[a-zA-Z_][a-zA-Z0-9_]{0,63}$`)

// metricTags checks that the tags can be labels of a metric, and are few.
func (c *checker) metricTags() {
	if n := len(c.m.MetricTags); n > MaxMetricTags {
		c.problem("metric_tags: %d tags, at most %d are allowed", n, MaxMetricTags)
	}
	for _, key := range sorted(c.m.MetricTags) {
		if !tagKey.MatchString(key) {
			c.problem("metric_tags: key %.64q: want a letter or '_', then up to 63 letters, digits and '_'", key)
		}
		if value := c.m.MetricTags[key]; len(value) > MaxTagValue {
			c.problem("metric_tags: the value of %.64q has %d bytes, at most %d are allowed", key, len(value), MaxTagValue)
		}
	}
}

// sorted returns the keys of a map in order, so that problems stand in the same order every time.
func sorted[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
