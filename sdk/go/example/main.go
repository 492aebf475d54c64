//go:build wasip1

// Command example is the worked example: scores of classes in, the likeliest classes with their labels out.
package main

import (
	"cmp"
	"errors"
	"math"
	"slices"
	"strconv"
	"strings"

	step "github.com/edgewise-ai/edgewise/sdk/go"
)

const description = `{
  "name": "classify", "version": "1.0.0", "description": "softmax, the k likeliest classes and their labels",
  "inputs": [{"name": "scores", "datatype": "FP32", "shape": [-1, -1]}],
  "outputs": [
    {"name": "label", "datatype": "BYTES", "shape": [-1, -1]},
    {"name": "probability", "datatype": "FP32", "shape": [-1, -1]},
    {"name": "class", "datatype": "INT32", "shape": [-1, -1]}],
  "parameters": [
    {"name": "k", "default": "5", "description": "classes to return"},
    {"name": "labels", "description": "one label a line; a class without one is called by its number"}]
}`

// classify returns the k likeliest classes of each row of scores.
func classify(inputs step.List) (step.List, error) {
	scores, err := step.Input[float32](inputs, "scores")
	if err != nil {
		return nil, err
	}
	k, err := step.IntParameter("k", 5, 1, 1000)
	if err != nil {
		return nil, err
	}
	if len(scores.Shape) != 2 {
		return nil, errors.New("input \"scores\" has " + strconv.Itoa(len(scores.Shape)) + " dimensions: want [rows, classes]")
	}
	rows, classes := scores.Shape[0], scores.Shape[1]
	k = min(k, classes)
	text, _ := step.Parameter("labels")
	labels := strings.Split(text, "\n")

	var names []string
	probability, class := make([]float32, 0, rows*k), make([]int32, 0, rows*k)
	for row := range slices.Chunk(scores.Values, int(max(1, classes))) {
		softmax(row)
		for _, c := range best(row, int(k)) {
			probability, class, names = append(probability, row[c]), append(class, c), append(names, label(labels, c))
		}
	}
	return step.List{
		step.OfBytes("label", names, rows, k), step.Of("probability", probability, rows, k), step.Of("class", class, rows, k),
	}, nil
}

// softmax turns a row of scores into probabilities, in place.
func softmax(row []float32) {
	highest, sum := slices.Max(row), float32(0)
	for i, v := range row {
		row[i] = float32(math.Exp(float64(v - highest)))
		sum += row[i]
	}
	for i := range row {
		row[i] /= sum
	}
}

// best returns the k classes of the largest values, the largest first, of equal ones the lower class first.
func best(row []float32, k int) []int32 {
	classes := make([]int32, len(row))
	for i := range classes {
		classes[i] = int32(i)
	}
	slices.SortStableFunc(classes, func(a, b int32) int { return cmp.Compare(row[b], row[a]) })
	return classes[:k]
}

// label returns the name of class, its number where it has none.
func label(labels []string, class int32) string {
	if int(class) < len(labels) && labels[class] != "" {
		return labels[class]
	}
	return strconv.Itoa(int(class))
}

//go:wasmexport edgewise_process
func process(inputs uint32) uint32 { return step.Run(inputs, classify) }

//go:wasmexport edgewise_describe
func describe() uint32 { return step.Describe(description) }

func main() {}
