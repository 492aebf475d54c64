// Package step is the guest's side of the step ABI for Go: what a program needs to become a step of the appliance.
//
// A step is a function from tensors to tensors and two exported functions:
//
//	func process(inputs step.List) (step.List, error) {
//		x, err := step.Input[float32](inputs, "x")
//		if err != nil {
//			return nil, err
//		}
//		y := make([]float32, len(x.Values))
//		...
//		return step.List{step.Of("y", y, x.Shape...)}, nil
//	}
//
//	//go:wasmexport edgewise_process
//	func run(inputs uint32) uint32 { return step.Run(inputs, process) }
//
//	//go:wasmexport edgewise_describe
//	func describe() uint32 { return step.Describe(`{"inputs": [...], "outputs": [...]}`) }
//
//	func main() {}
//
// It is built with GOOS=wasip1 GOARCH=wasm go build -buildmode=c-shared -o model.wasm. The other exports of the ABI are
// in this package.
//
// Input tensors are views of the block that the box wrote, and outputs are read where they are: nothing is copied. Both
// may be used until process returns, outputs by the box until the request ends. The package uses neither fmt nor
// reflect, which would double the size of a small step.
package step
