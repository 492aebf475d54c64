package onnxgen

import (
	"encoding/binary"
	"math"
	"math/rand/v2"
)

// network builds an image network layer by layer, with weights drawn as they are needed.
type network struct {
	graph Graph
	rng   *rand.Rand
	made  int
}

func newNetwork(graph string, seed uint64) *network {
	return &network{graph: Graph{Name: graph}, rng: rand.New(rand.NewPCG(seed, 0))}
}

// normal adds normally distributed weights and returns their name.
func (n *network) normal(deviation float64, dims ...int64) string {
	size := int64(1)
	for _, d := range dims {
		size *= d
	}
	data := make([]byte, 0, 4*size)
	for range size {
		data = binary.LittleEndian.AppendUint32(data, math.Float32bits(float32(deviation*n.rng.NormFloat64())))
	}
	return n.constant(Tensor{Type: Float, Dims: dims, Data: data})
}

func (n *network) constant(t Tensor) string {
	n.made++
	t.Name = name("w", n.made)
	n.graph.Initializers = append(n.graph.Initializers, t)
	return t.Name
}

// op adds a node with one output and returns the output's name.
func (n *network) op(op string, in []string, attributes ...Attribute) string {
	n.made++
	out := name("t", n.made)
	n.graph.Nodes = append(n.graph.Nodes, Node{Op: op, In: in, Out: []string{out}, Attributes: attributes})
	return out
}

// activation follows a convolution.
type activation int

const (
	linear activation = iota
	relu
	relu6
)

// conv describes a convolution whose batch normalisation is folded into its bias.
type conv struct {
	in, out, kernel, stride, groups int64
	then                            activation
}

// conv adds a convolution of x with padding that keeps the size at stride 1.
func (n *network) conv(x string, c conv) string {
	inputs := c.in / c.groups
	w := n.normal(math.Sqrt(2/float64(inputs*c.kernel*c.kernel)), c.out, inputs, c.kernel, c.kernel)
	b := n.normal(0.01, c.out)
	p := (c.kernel - 1) / 2
	y := n.op("Conv", []string{x, w, b}, IntsAttribute("kernel_shape", c.kernel, c.kernel),
		IntsAttribute("strides", c.stride, c.stride), IntsAttribute("pads", p, p, p, p), IntAttribute("group", c.groups))
	switch c.then {
	case relu:
		return n.op("Relu", []string{y})
	case relu6:
		return n.op("Clip", []string{y, n.constant(Floats("", nil, 0)), n.constant(Floats("", nil, 6))})
	}
	return y
}

// classify ends an image network with 1,000 classes and returns the model: input FP32 [batch,3,224,224], output FP32
// [batch,1000].
func (n *network) classify(x string, channels int64) *Model {
	x = n.op("GlobalAveragePool", []string{x})
	x = n.op("Flatten", []string{x}, IntAttribute("axis", 1))
	n.dense(x, channels, 1000, 0.01, "output")
	n.graph.Inputs = []Value{{Name: "input", Type: Float, Dims: Batch(3, 224, 224)}}
	n.graph.Outputs = []Value{{Name: "output", Type: Float, Dims: Batch(1000)}}
	return &Model{Graph: n.graph}
}

// dense adds out = xW + 0.
func (n *network) dense(x string, in, out int64, deviation float64, to string) {
	w := n.normal(deviation, in, out)
	b := n.constant(Tensor{Type: Float, Dims: []int64{out}, Data: make([]byte, 4*out)})
	n.graph.Nodes = append(n.graph.Nodes, Node{Op: "Gemm", In: []string{x, w, b}, Out: []string{to}})
}

// MLP makes a small network of four dense layers, 64-128-128-64-10: input FP32 [batch,64], output FP32 [batch,10].
func MLP(seed uint64) *Model {
	n := newNetwork("mlp", seed)
	x, width := "input", int64(64)
	for _, next := range []int64{128, 128, 64} {
		n.made++
		hidden := name("t", n.made)
		n.dense(x, width, next, 0.1, hidden)
		x, width = n.op("Relu", []string{hidden}), next
	}
	n.dense(x, width, 10, 0.1, "output")
	n.graph.Inputs = []Value{{Name: "input", Type: Float, Dims: Batch(64)}}
	n.graph.Outputs = []Value{{Name: "output", Type: Float, Dims: Batch(10)}}
	return &Model{Graph: n.graph}
}

// MobileNetV2 makes the image network of that name with random weights: input FP32 [batch,3,224,224], output FP32
// [batch,1000], about 14 MB.
func MobileNetV2(seed uint64) *Model { return mobileNetV2("mobilenetv2", seed, 10) }

// MobileNetV2Wide is the same with the width multiplier 1.3: about 22 MB and 1.7 times the work.
func MobileNetV2Wide(seed uint64) *Model { return mobileNetV2("mobilenetv2_1.3", seed, 13) }

// mobileNetV2 makes it with so many tenths of the channels.
func mobileNetV2(name string, seed uint64, tenths int64) *Model {
	n := newNetwork(name, seed)
	channels := func(standard int64) int64 { // to the nearest multiple of 8, as the network's authors do
		wanted := standard * tenths
		return max(8, (wanted+40)/80*8)
	}
	first, last := channels(32), channels(1280)
	x, c := n.conv("input", conv{3, first, 3, 2, 1, relu6}), first
	for _, stage := range []struct{ expand, out, blocks, stride int64 }{
		{1, 16, 1, 1}, {6, 24, 2, 2}, {6, 32, 3, 2}, {6, 64, 4, 2}, {6, 96, 3, 1}, {6, 160, 3, 2}, {6, 320, 1, 1},
	} {
		for block := range stage.blocks {
			stride, hidden, out, y := int64(1), c*stage.expand, channels(stage.out), x
			if block == 0 {
				stride = stage.stride
			}
			if stage.expand != 1 {
				y = n.conv(y, conv{c, hidden, 1, 1, 1, relu6})
			}
			y = n.conv(y, conv{hidden, hidden, 3, stride, hidden, relu6})
			y = n.conv(y, conv{hidden, out, 1, 1, 1, linear})
			if stride == 1 && c == out {
				y = n.op("Add", []string{x, y})
			}
			x, c = y, out
		}
	}
	x = n.conv(x, conv{c, last, 1, 1, 1, relu6})
	return n.classify(x, last)
}

// ResNet50 makes the image network of that name with random weights: input FP32 [batch,3,224,224], output FP32
// [batch,1000], about 102 MB.
func ResNet50(seed uint64) *Model {
	n := newNetwork("resnet50", seed)
	x, c := n.conv("input", conv{3, 64, 7, 2, 1, relu}), int64(64)
	x = n.op("MaxPool", []string{x}, IntsAttribute("kernel_shape", 3, 3), IntsAttribute("strides", 2, 2), IntsAttribute("pads", 1, 1, 1, 1))
	for _, stage := range []struct{ width, blocks, stride int64 }{{64, 3, 1}, {128, 4, 2}, {256, 6, 2}, {512, 3, 2}} {
		for block := range stage.blocks {
			stride, out, skip := int64(1), stage.width*4, x
			if block == 0 {
				stride = stage.stride
			}
			y := n.conv(x, conv{c, stage.width, 1, 1, 1, relu})
			y = n.conv(y, conv{stage.width, stage.width, 3, stride, 1, relu})
			y = n.conv(y, conv{stage.width, out, 1, 1, 1, linear})
			if c != out || stride != 1 {
				skip = n.conv(x, conv{c, out, 1, stride, 1, linear})
			}
			x, c = n.op("Relu", []string{n.op("Add", []string{skip, y})}), out
		}
	}
	return n.classify(x, 2048)
}
