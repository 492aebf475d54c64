package wasm

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/dustin/go-humanize"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/wasm/fuel"
	"github.com/edgewise-ai/edgewise/wasm/kernel"
)

// TestTheContractSaysWhatTheCodeDoes holds docs/steps-abi.md, by which people write steps, against the bounds and the
// parameters.
func TestTheContractSaysWhatTheCodeDoes(t *testing.T) {
	text, err := os.ReadFile("../docs/steps-abi.md")
	if err != nil {
		t.Fatal(err)
	}
	contract := string(text)
	count := func(n int) string { return humanize.Comma(int64(n)) }
	bytes := func(n int) string { return humanize.IBytes(uint64(n)) }
	l := fuel.DefaultLimits()
	for what, value := range map[string]string{
		"bytes": bytes(l.Bytes),
		"types / parameters or results of one / of all": count(l.Types) + " / " +
			count(l.Params) + " / " + count(l.TypeValues),
		"blocks and branches of a function (labels of `br_table` counted)":                count(l.Joins),
		"those times its locals and the values of its blocks / in all functions together": count(l.Flow) + " / " + count(l.ModuleFlow),
		"imports / exports":              count(l.Imports) + " / " + count(l.Exports),
		"functions / code of one":        count(l.Functions) + " / " + strings.Replace(bytes(l.FunctionBytes), ".0", "", 1),
		"locals of a function":           count(l.Locals),
		"blocks within each other":       count(l.Nesting),
		"labels of a `br_table`":         count(l.Branches),
		"tables / elements of all":       count(l.Tables) + " / " + count(l.TableElements),
		"globals":                        count(l.Globals),
		"data and element segments":      count(l.Segments) + " each",
		"name of an import or export":    count(fuel.MaxNameBytes) + " bytes",
		"description":                    bytes(MaxDescribe),
		"compiling: time / memory":       fmt.Sprintf("%.0f s / ", DefaultCompileTimeout.Seconds()) + bytes(DefaultCompileMemory),
		"set-up, description: time each": fmt.Sprintf("%.0f s", DefaultSetupTimeout.Seconds()),
		"memory": "`wasm.max_memory_bytes` (" + bytes(DefaultMaxMemory) +
			"), or the model's `max_memory_mebibyte`",
		"tensors of a list / bytes of a name": count(MaxTensors) + " / " + count(MaxNameBytes),
		"dimensions of a tensor":              count(edgewise.MaxRank),
		"a line of the log / lines a second": strings.Replace(bytes(MaxLogBytes), ".0", "",
			1) + " / " + count(MaxLogLines) + " of one version",
		"message of `fail`":                           strings.Replace(bytes(MaxFailBytes), ".0", "", 1),
		"`infer`: calls / depth / bytes of an answer": count(DefaultInfers) + " / " + count(MaxInferDepth) + " / " + bytes(MaxInferBytes),
		"name of a parameter":                         count(MaxParamName) + " bytes",
		"pixels / side of a picture":                  count(kernel.MaxPixels) + " / " + count(kernel.MaxSide),
		"file of a picture":                           bytes(kernel.MaxFile),
		"rows of `softmax`, `top_k` / `k`":            count(kernel.MaxRows) + " / " + count(kernel.MaxK),
		"boxes of `nms` / kept":                       count(kernel.MaxBoxes) + " / " + count(kernel.MaxKept),
		"`" + ParamStateful + "`":                     "`true`, `false`",
		"`" + ParamPolicy + "`":                       "`reload`, `fail`, `bypass`",
		"`" + ParamModels + "`":                       "at most " + count(maxModels) + " names, separated by commas",
		"`" + ParamInfers + "`":                       "1 to " + count(MaxInfers),
		"`" + ParamFuel + "`":                         "units",
		"`" + ParamMemory + "`":                       "MiB",
	} {
		if row := "| " + what + " | " + value + " |"; !strings.Contains(contract, row) {
			t.Errorf("the contract has no %q", row)
		}
	}
}
