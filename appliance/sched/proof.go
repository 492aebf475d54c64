package sched

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"time"

	"github.com/edgewise-ai/edgewise"
)

// Proof says what is known, before a version has run, of whether the rows of its batches depend on each other. Requests are
// merged only where they do not. A nil Proof is the word of the model's configuration that they do not.
type Proof struct {
	Declared string // what in the configuration says so; empty: a trial at load has to find it
	Refuted  string // why they may depend on each other whatever a trial finds; empty: nothing speaks against it
}

const (
	proofTime     = 100 * time.Millisecond // a proof that has had a round of each sample begins no new one after this
	proofSlow     = 2 * time.Second        // and one that has had any, after this
	proofTimeout  = 10 * time.Second       // and is given up after this
	proofBytes    = 64 << 20               // of an input of its largest batch, at most, else there is none
	proofPasses   = 32                     // over the samples, while there is time
	proofParts    = 3                      // requests whose rows are merged
	proofRows     = 6                      // of them together, at most
	proofPartRuns = 3 * proofRows          // rows that a round runs
	stringBytes   = 8                      // of a random string with its length
)

// sample says what random inputs of a trial look like.
type sample struct {
	low, high float64 // of floating-point numbers
	integers  int64   // integers are from 0 to this, without it
}

// samples are the rounds of a proof. Integers are small first: many are indexes, lengths or masks.
var samples = [...]sample{{-1, 1, 2}, {0, 1, 10}, {-1, 1, 30}, {0, 1, 100}}

// The numbers of a request are a sample's times a power of ten between these exponents: a model that rounds, or saturates, may
// hide for all others that its rows depend on each other.
const leastPower, mostPower = -1, 2.5

// openSizes are tried in turn for dimensions of variable size, until the model takes one.
var openSizes = [...]int64{8, 32, 224}

// prove finds out whether the outputs of a batch are those of its rows: random requests of several sizes run one by one, and
// merged in two orders. It returns why they may not be merged, "" when they may. A model that takes none of the random
// inputs, or answers the same whatever they are, is not proven: its author has to declare what cannot be seen.
func (s *Scheduler) prove(ctx context.Context) (refuted string) {
	ctx, cancel := context.WithTimeout(ctx, proofTimeout)
	defer cancel()
	p := &proof{s: s, varied: map[string]bool{}, random: rand.New(rand.NewPCG(1, 2))}
	if refuted = p.begin(ctx); refuted != "" {
		return refuted
	}
	start, agreed := time.Now(), 0
	looks := samples[:]
	for range proofPasses {
		var accepted []sample
		for _, look := range looks {
			took := time.Since(start)
			if (agreed >= len(samples) && took > proofTime || agreed > 0 && took > proofSlow) && p.constant() == "" {
				return ""
			}
			refuted, err := p.round(ctx, look)
			switch {
			case refuted != "":
				return refuted
			case ctx.Err() != nil:
				return fmt.Sprintf("the trial took longer than %v", proofTimeout)
			case err == nil:
				agreed, accepted = agreed+1, append(accepted, look)
			}
			p.failure = firstError(p.failure, err)
		}
		looks = accepted
	}
	switch constant := p.constant(); {
	case agreed == 0:
		return fmt.Sprintf("the model takes no random inputs: %v", p.failure)
	case constant != "":
		return fmt.Sprintf("output %q was the same for all random rows, which proves nothing", constant)
	}
	return ""
}

func firstError(a, b error) error {
	if a != nil {
		return a
	}
	return b
}

// proof is one that is being made.
type proof struct {
	s       *Scheduler
	open    int64 // size of dimensions of variable size
	random  *rand.Rand
	varied  map[string]bool // outputs that were not the same for all rows
	failure error           // the first one of a round
}

// begin finds a size for variable dimensions and looks whether there is time for a round.
func (p *proof) begin(ctx context.Context) (refuted string) {
	var failure error
	for _, p.open = range openSizes {
		inputs, ok := p.inputs(1, samples[0])
		if !ok {
			return fmt.Sprintf("its inputs are too large for a trial, which takes %d MiB", proofBytes>>20)
		}
		start := time.Now()
		first, cancel := context.WithTimeout(ctx, trialTimeout)
		_, err := p.s.sampled(first, inputs)
		late := first.Err() != nil
		cancel()
		switch took := time.Since(start); {
		case late || took > proofTimeout/proofPartRuns:
			return fmt.Sprintf("a run of one row took %v, and a trial of several %v at most", took.Round(time.Millisecond), proofTimeout)
		case err == nil || !p.opens():
			return ""
		}
		failure = firstError(failure, err)
	}
	return fmt.Sprintf("the model takes no random inputs: %v", failure)
}

// opens tells whether an input has a dimension of variable size beside the batch.
func (p *proof) opens() bool {
	return slices.ContainsFunc(p.s.version.Model.Inputs(), func(spec edgewise.Spec) bool {
		return !spec.Optional && slices.Contains(spec.Shape[1:], -1)
	})
}

// parts are the rows of the requests of a round, which fit into a batch: 1, 2 and 3 where there is room for them.
func (p *proof) parts() []int {
	left, list := p.s.queue.former.most, []int(nil)
	for rows := 1; rows <= proofParts && left > 0; rows++ {
		list = append(list, min(rows, left))
		left -= min(rows, left)
	}
	return list
}

// round runs requests one by one and together, and compares. The error is that of a run, which says nothing about rows.
func (p *proof) round(ctx context.Context, look sample) (refuted string, err error) {
	var requests, alone [][]edgewise.Tensor
	for _, rows := range p.parts() {
		inputs, ok := p.inputs(rows, look)
		if !ok {
			return "", errSampleSize
		}
		outputs, err := p.s.sampled(ctx, inputs)
		if err != nil {
			return "", err
		}
		requests, alone = append(requests, inputs), append(alone, outputs)
	}
	for range 2 { // in order, and the other way round
		together, err := p.s.sampled(ctx, joined(requests))
		if err != nil {
			return "", err
		}
		for i := range together {
			if err := p.compare(&together[i], alone, i, requests); err != nil {
				return err.Error(), nil
			}
		}
		slices.Reverse(requests)
		slices.Reverse(alone)
	}
	return "", nil
}

var errSampleSize = fmt.Errorf("its inputs take more than %d MiB", proofBytes>>20)

// compare holds output i of a batch against those of its parts.
func (p *proof) compare(whole *edgewise.Tensor, parts [][]edgewise.Tensor, i int, requests [][]edgewise.Tensor) error {
	total := int64(0)
	for _, inputs := range requests {
		total += inputs[0].Shape[0]
	}
	if len(whole.Shape) == 0 || whole.Shape[0] != total {
		return fmt.Errorf("output %q of a batch of %d has shape %v: dimension 0 is not the batch", whole.Name, total, whole.Shape)
	}
	rest, err := newRows(whole, int(total))
	if err != nil {
		return err
	}
	scale := magnitude(whole)
	for n, inputs := range requests {
		rows, part := inputs[0].Shape[0], &parts[n][i]
		data, err := rest.cut(rows)
		switch {
		case err != nil:
			return err
		case len(part.Shape) == 0 || part.Shape[0] != rows || !part.Shape[1:].Equal(whole.Shape[1:]):
			return fmt.Errorf("output %q has shape %v for %d rows, and %v in a batch of %d", whole.Name, part.Shape, rows, whole.Shape, total)
		case !alike(whole.Type, data, part.Data, scale):
			return fmt.Errorf("output %q of random rows is another one in a batch than alone: rows depend on each other", whole.Name)
		}
	}
	p.varied[whole.Name] = p.varied[whole.Name] || varies(whole, int(total))
	return nil
}

// varies tells whether two rows of an output differ.
func varies(t *edgewise.Tensor, total int) bool {
	rest, err := newRows(t, total)
	if err != nil {
		return false
	}
	first, _ := rest.cut(1)
	for range total - 1 {
		if next, err := rest.cut(1); err != nil || string(next) != string(first) {
			return err == nil
		}
	}
	return false
}

// constant names an output that was the same for all rows so far; "" when there is none.
func (p *proof) constant() string {
	for _, name := range p.s.checker.names {
		if !p.varied[name] {
			return name
		}
	}
	return ""
}

// sampled runs inputs once and returns copies of the outputs.
func (s *Scheduler) sampled(ctx context.Context, inputs []edgewise.Tensor) (outputs []edgewise.Tensor, err error) {
	defer func() {
		if cause := recover(); cause != nil {
			err = edgewise.Errorf("sched.prove", edgewise.Internal, "the instance panicked on random inputs: %v", cause)
		}
	}()
	seat := s.account.seat()
	if !seat.try() {
		seat.wait()
	}
	defer seat.give()
	if s.guest {
		ctx = seat.with(ctx)
	}
	result, err := s.instance.Run(ctx, inputs, s.checker.names)
	if err != nil {
		return nil, err
	}
	defer result.Free()
	for _, out := range result.Outputs {
		out.Data, out.Shape = slices.Clone(out.Data), slices.Clone(out.Shape)
		outputs = append(outputs, out)
	}
	return outputs, nil
}

// narrowed is a random part of a sample, times a magnitude: the largest number, the smallest and the mean of two requests are
// then others.
func (p *proof) narrowed(look sample) sample {
	times := math.Pow(10, leastPower+(mostPower-leastPower)*p.random.Float64())
	low := look.low + (look.high-look.low)*p.random.Float64()
	high := low + (look.high-low)*p.random.Float64()
	return sample{times * low, times * high, 1 + p.random.Int64N(look.integers)}
}

// inputs makes the required inputs of a random request, as the backend sees them. ok is false when they are too large.
func (p *proof) inputs(rows int, look sample) (inputs []edgewise.Tensor, ok bool) {
	look = p.narrowed(look)
	for _, spec := range p.s.version.Model.Inputs() {
		if spec.Optional {
			continue
		}
		shape := slices.Clone(spec.Shape)
		for d := range shape {
			if shape[d] < 0 {
				shape[d] = p.open
			}
		}
		shape[0] = int64(rows)
		n, counted := shape.Elements()
		size := spec.Type.Size()
		if size == 0 {
			size = stringBytes
		}
		if !counted || n > proofBytes/proofRows/size*int64(rows) {
			return nil, false
		}
		inputs = append(inputs, edgewise.Tensor{
			Name: spec.Name, Type: spec.Type, Shape: p.s.checker.inputs[spec.Name].reshape.apply(shape), Data: p.data(spec.Type, n, look),
		})
	}
	return inputs, len(inputs) > 0
}

// data makes n random elements.
func (p *proof) data(t edgewise.DataType, n int64, look sample) []byte {
	data := alignedBytes(int(n * t.Size()))[:0]
	for range n {
		switch t {
		case edgewise.Bytes:
			data = edgewise.AppendElement(data, strconv.FormatInt(p.random.Int64N(look.integers), 10))
		case edgewise.FP16, edgewise.BF16, edgewise.FP32, edgewise.FP64:
			data = appendFloat(data, t, look.low+(look.high-look.low)*p.random.Float64())
		case edgewise.Bool:
			data = append(data, byte(p.random.IntN(2)))
		default:
			v := uint64(p.random.Int64N(look.integers))
			for range t.Size() {
				data, v = append(data, byte(v)), v>>8
			}
		}
	}
	return data
}

// joined puts the rows of requests behind each other.
func joined(requests [][]edgewise.Tensor) []edgewise.Tensor {
	whole := slices.Clone(requests[0])
	for i := range whole {
		whole[i].Shape = slices.Clone(whole[i].Shape)
		whole[i].Data = slices.Clone(whole[i].Data)
		for _, more := range requests[1:] {
			whole[i].Shape[0] += more[i].Shape[0]
			whole[i].Data = append(whole[i].Data, more[i].Data...)
		}
	}
	return whole
}
