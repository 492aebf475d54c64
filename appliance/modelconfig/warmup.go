package modelconfig

import (
	"fmt"
	"slices"

	"github.com/edgewise-ai/edgewise"
)

// WarmupFolder is the folder of a version that holds the data files of warm-up requests.
const WarmupFolder = "warmup"

// warmups checks that each warm-up is a request which the model would accept.
func (c *checker) warmups() {
	if n := len(c.m.ModelWarmup); n > MaxWarmups {
		c.problem("model_warmup: %d requests, at most %d are allowed", n, MaxWarmups)
	}
	seen := map[string]bool{}
	for i, w := range c.m.ModelWarmup {
		what := fmt.Sprintf("model_warmup[%d]", i)
		if w.Name == "" {
			c.problem("%s: name is empty", what)
		} else {
			what = "model_warmup " + shown(w.Name)
		}
		if seen[w.Name] {
			c.problem("%s is declared twice", what)
		}
		seen[w.Name] = true
		c.warmup(what, w)
	}
}

func (c *checker) warmup(what string, w edgewise.ModelWarmup) {
	if most := uint32(max(c.m.MaxBatchSize, 1)); w.BatchSize < 1 || w.BatchSize > most {
		c.problem("%s: batch_size: want 1 to %d, got %d", what, most, w.BatchSize)
	}
	if w.Count > MaxWarmupCount {
		c.problem("%s: count: want at most %d, got %d", what, MaxWarmupCount, w.Count)
	}
	for _, in := range c.m.Input {
		if _, ok := w.Inputs[in.Name]; !ok && !in.Optional {
			c.problem("%s: input %s is missing", what, shown(in.Name))
		}
	}
	for _, name := range sorted(w.Inputs) {
		c.warmupInput(fmt.Sprintf("%s: input %s", what, shown(name)), name, w)
	}
}

func (c *checker) warmupInput(what, name string, w edgewise.ModelWarmup) {
	in := w.Inputs[name]
	i := slices.IndexFunc(c.m.Input, func(d edgewise.ModelInput) bool { return d.Name == name })
	if i < 0 {
		c.problem("%s is not an input of the model", what)
		return
	}
	declared := c.m.Input[i]
	if in.DataType != declared.DataType {
		c.problem("%s: data_type: want %s, got %s", what, configName(declared.DataType), configName(in.DataType))
	}
	if !declared.Dims.Accepts(in.Dims) {
		c.problem("%s: dims: want fixed sizes that fit %v, got %v", what, declared.Dims, in.Dims)
	} else if !warmupFits(in, w.BatchSize) {
		c.problem("%s: takes more than %d bytes", what, MaxWarmupBytes)
	}
	c.warmupSource(what, in)
}

// warmupFits tells whether an input takes at most MaxWarmupBytes, counting four bytes for each string.
func warmupFits(in edgewise.WarmupInput, batch uint32) bool {
	size := in.DataType.Size()
	if in.DataType == edgewise.Bytes {
		size = 4
	}
	n, ok := append(edgewise.Shape{int64(batch), size}, in.Dims...).Elements()
	return ok && n <= MaxWarmupBytes
}

func (c *checker) warmupSource(what string, in edgewise.WarmupInput) {
	sources := 0
	for _, set := range []bool{in.ZeroData, in.RandomData, in.InputDataFile != ""} {
		if set {
			sources++
		}
	}
	if sources != 1 {
		c.problem("%s: want exactly one of zero_data, random_data and input_data_file, got %d", what, sources)
	}
	if in.InputDataFile == "" {
		return
	}
	if err := edgewise.CheckPath(in.InputDataFile); err != nil {
		c.problem("%s: input_data_file: %v", what, err)
		return
	}
	c.path(what+": input_data_file", WarmupFolder+"/"+in.InputDataFile)
}

// shown quotes a name for a message.
func shown(name string) string { return fmt.Sprintf("%.64q", name) }
