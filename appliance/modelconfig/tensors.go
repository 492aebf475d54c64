package modelconfig

import (
	"slices"
	"strings"
	"unicode"

	"github.com/edgewise-ai/edgewise"
)

// tensor is an input or an output as it is declared.
type tensor struct {
	what    string // `input "x"`, for messages
	name    string
	data    edgewise.DataType
	dims    edgewise.Shape
	reshape *edgewise.Reshape
}

func (c *checker) inputs() {
	seen := map[string]bool{}
	for i, in := range c.m.Input {
		t := tensor{"input " + shown(in.Name), in.Name, in.DataType, in.Dims, in.Reshape}
		c.name(t, "input", i, seen)
		var signature []edgewise.TensorInfo
		if c.ins != nil {
			signature = c.ins.Inputs
		}
		c.tensor(t, signature)
		c.format(t, in.Format)
		if in.AllowRaggedBatch {
			c.ragged(t, in)
			continue
		}
		info := c.compare(t, signature)
		c.optional(t, in, info)
	}
	for _, t := range made(c.m) {
		if t.side == inputSide {
			c.madeTensor(t, seen)
		}
	}
	if c.ins == nil {
		return
	}
	for _, info := range c.ins.Inputs {
		if !info.Optional && !seen[info.Name] {
			c.problem("input %q is missing: the model needs it, as %s%v", info.Name, typeName(info), info.Shape)
		}
	}
}

func (c *checker) outputs() {
	if len(c.m.Output) == 0 {
		c.problem("output: want at least one")
	}
	seen := map[string]bool{}
	for i, out := range c.m.Output {
		t := tensor{"output " + shown(out.Name), out.Name, out.DataType, out.Dims, out.Reshape}
		c.name(t, "output", i, seen)
		var signature []edgewise.TensorInfo
		if c.ins != nil {
			signature = c.ins.Outputs
		}
		c.tensor(t, signature)
		if scattered(c.m, out.Name) {
			c.compareMade(madeTensor{outputSide, t.what, t.name, t.data, edgewise.Shape{-1}, true}, signature)
		} else {
			c.compare(t, signature)
		}
		if out.LabelFilename != "" {
			c.path(t.what+": label_filename", out.LabelFilename)
		}
	}
	for _, t := range made(c.m) {
		if t.side == outputSide {
			c.madeOutput(t, seen)
		}
	}
}

// name checks a tensor's name and that it stands there once on its side.
func (c *checker) name(t tensor, side string, index int, seen map[string]bool) {
	switch {
	case t.name == "":
		c.problem("%s[%d]: name is empty", side, index)
	case len(t.name) > MaxTensorName:
		c.problem("%s: name has %d bytes, at most %d are allowed", t.what, len(t.name), MaxTensorName)
	case strings.ContainsFunc(t.name, unicode.IsControl):
		c.problem("%s: name holds a control character", t.what)
	case seen[t.name]:
		c.problem("%s is declared twice", t.what)
	}
	seen[t.name] = true
}

// tensor checks what a declaration says by itself. Dims are empty only where the model's tensor has no dimensions but
// the batch.
func (c *checker) tensor(t tensor, signature []edgewise.TensorInfo) {
	if t.data == edgewise.InvalidType {
		c.problem("%s: data_type is missing", t.what)
	}
	if len(t.dims) == 0 && !c.scalar(t.name, signature) {
		c.problem("%s: dims is empty: write [1], and reshape { shape: [] } if the model's tensor has no dimensions", t.what)
	}
	if c.dims(t.what+": dims", t.dims) && t.reshape != nil && c.dims(t.what+": reshape", t.reshape.Shape) {
		c.reshape(t)
	}
}

// scalar tells whether the model says that a tensor has no dimensions but the batch.
func (c *checker) scalar(name string, signature []edgewise.TensorInfo) bool {
	return slices.ContainsFunc(signature, func(info edgewise.TensorInfo) bool {
		return info.Name == name && info.Shape != nil && len(info.Shape) == c.batchRank()
	})
}

// dims checks the sizes of a shape without its batch dimension.
func (c *checker) dims(what string, dims edgewise.Shape) bool {
	if most := edgewise.MaxRank - c.batchRank(); len(dims) > most {
		c.problem("%s: %d dimensions, at most %d are allowed", what, len(dims), most)
		return false
	}
	fixed := edgewise.Shape{}
	for i, d := range dims {
		if d < -1 {
			c.problem("%s[%d]: want -1 (any size) or 0 and more, got %d", what, i, d)
			return false
		}
		if d > 0 {
			fixed = append(fixed, d)
		}
	}
	if _, ok := fixed.Elements(); !ok {
		c.problem("%s: %v has too many elements", what, dims)
		return false
	}
	return true
}

func (c *checker) batchRank() int {
	if c.m.MaxBatchSize > 0 {
		return 1
	}
	return 0
}

// reshape checks that both shapes hold the same elements whatever the sizes of -1 are: those are matched in order, so
// the fixed dimensions between them must have the same product.
func (c *checker) reshape(t tensor) {
	from, to := segments(t.dims), segments(t.reshape.Shape)
	if len(from) != len(to) {
		c.problem("%s: reshape: %v and dims %v have different numbers of -1", t.what, t.reshape.Shape, t.dims)
		return
	}
	for i := range from {
		if from[i] != to[i] {
			c.problem("%s: reshape: %v and dims %v have different numbers of elements", t.what, t.reshape.Shape, t.dims)
			return
		}
	}
}

// segments returns the products of the fixed dimensions before, between and after each -1.
func segments(dims edgewise.Shape) []int64 {
	products := []int64{1}
	for _, d := range dims {
		if d == -1 {
			products = append(products, 1)
			continue
		}
		products[len(products)-1] *= d
	}
	return products
}

func (c *checker) format(t tensor, format edgewise.TensorFormat) {
	switch format {
	case edgewise.FormatNone, "":
	case edgewise.FormatNHWC, edgewise.FormatNCHW:
		if len(t.dims) != 3 {
			c.problem("%s: format %s needs 3 dims, got %d", t.what, format, len(t.dims))
		}
	default:
		c.problem("%s: format: unknown name %.64q", t.what, format)
	}
}

// optional checks that an input may be left out of requests.
func (c *checker) optional(t tensor, in edgewise.ModelInput, info *edgewise.TensorInfo) {
	if !in.Optional {
		return
	}
	if info != nil && !info.Optional {
		c.problem("%s: optional, but the model has no default for it", t.what)
	}
}

// compare checks a declaration against the model's own and returns that, nil when there is none.
func (c *checker) compare(t tensor, signature []edgewise.TensorInfo) *edgewise.TensorInfo {
	if c.ins == nil || t.name == "" {
		return nil
	}
	names := make([]string, len(signature))
	for i := range signature {
		info := &signature[i]
		if info.Name == t.name {
			c.match(t, info)
			return info
		}
		names[i] = info.Name
	}
	if at := slices.IndexFunc(c.ins.Omitted, func(o edgewise.Omitted) bool { return o.Name == t.name }); at >= 0 {
		c.problem("%s cannot be served: %s", t.what, c.ins.Omitted[at].Reason)
		return nil
	}
	c.problem("%s is not in the model%s", t.what, listed("it has", names))
	return nil
}

func (c *checker) match(t tensor, info *edgewise.TensorInfo) {
	switch {
	case info.Type == edgewise.InvalidType:
		c.problem("%s: the model's type is %.64q, which cannot be served", t.what, info.Datatype)
	case t.data != edgewise.InvalidType && t.data != info.Type:
		c.problem("%s: data_type: the model wants %s, got %s", t.what, configName(info.Type), configName(t.data))
	}
	if info.Shape == nil {
		return // the model does not say how many dimensions there are
	}
	shape := t.dims
	if t.reshape != nil {
		shape = t.reshape.Shape
	}
	if c.m.MaxBatchSize > 0 {
		if !batches(info.Shape) && !info.Optional {
			c.problem("%s: max_batch_size is %d, but the model's shape %v has no variable first dimension: set "+
				"max_batch_size to 0", t.what, c.m.MaxBatchSize, info.Shape)
			return
		}
		shape = append(edgewise.Shape{-1}, shape...)
	}
	if !fits(info.Shape, shape) {
		c.problem("%s: the model wants shape %v, got %v%s", t.what, info.Shape, shape, c.shapeNote(t))
	}
}

// fits tells whether a declared shape is the model's, or stricter where the model leaves the size open.
func fits(model, declared edgewise.Shape) bool {
	if len(model) != len(declared) {
		return false
	}
	for i, d := range model {
		if d != -1 && declared[i] != d {
			return false
		}
	}
	return true
}

// shapeNote says how the shape in a message came about.
func (c *checker) shapeNote(t tensor) string {
	var notes []string
	if c.m.MaxBatchSize > 0 {
		notes = append(notes, "with the batch dimension that max_batch_size adds in front")
	}
	if t.reshape != nil {
		notes = append(notes, "after reshape")
	}
	if len(notes) == 0 {
		return ""
	}
	return " (" + strings.Join(notes, ", ") + ")"
}

func typeName(info edgewise.TensorInfo) string {
	if info.Type == edgewise.InvalidType {
		return info.Datatype
	}
	return configName(info.Type)
}

// configName is a type's name in a configuration.
func configName(t edgewise.DataType) string {
	name, _ := t.MarshalText()
	return string(name)
}
