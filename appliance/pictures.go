package appliance

import (
	"context"
	"encoding/binary"
	"errors"
	"math"
	"slices"
	"sync"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/appliance/sched"
	"github.com/edgewise-ai/edgewise/gpu/onnx"
)

// pictureTakers are the versions that make their input of pictures themselves, on their GPU.
type pictureTakers struct {
	mu    sync.RWMutex
	takes map[edgewise.ModelID]*pictured
}

func newPictureTakers() *pictureTakers {
	return &pictureTakers{takes: map[edgewise.ModelID]*pictured{}}
}

// take tells whether a version takes pictures for an input.
func (t *pictureTakers) take(id edgewise.ModelID, input string) bool {
	if t == nil {
		return false
	}
	t.mu.RLock()
	defer t.mu.RUnlock()
	p := t.takes[id]
	return p != nil && p.input == input
}

func (t *pictureTakers) note(p *pictured) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.takes[p.id] = p
}

// forget ends that p takes pictures. Another one of the same version, which has been loaded since, goes on.
func (t *pictureTakers) forget(p *pictured) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.takes[p.id] == p {
		delete(t.takes, p.id)
	}
}

// pictured stands before a version on GPUs whose image input may come as pictures. Such requests have a queue of their own: they are batched
// with each other, as bytes, and become tensors on the GPU.
type pictured struct {
	scheduler
	pictures scheduler // over the same instance
	id       edgewise.ModelID
	input    string
	takers   *pictureTakers
}

// withPictures puts that queue beside a version's own where the version can take pictures, and returns s itself elsewhere.
func (l *library) withPictures(ctx context.Context, s scheduler, v *edgewise.Version, instance edgewise.Instance, p placement) (scheduler, error) {
	m := v.Model
	if p.devices[0].Kind == edgewise.CPU || m.SequenceBatching != nil || wantsCache(m) || l.config.Limiter != nil || m.Parameters[sched.PaddingParameter].StringValue != "" || len(m.BatchInput)+len(m.BatchOutput) > 0 {
		return s, nil
	}
	inspection, err := l.inspectVersion(ctx, v)
	if err != nil {
		return nil, err
	}
	input, ok := onnx.PictureInput(m, inspection)
	if !ok {
		return s, nil
	}
	asBytes := *v
	asBytes.Model = pictureModel(m, input)
	queue := sched.New(&asBytes, lentInstance(instance), sched.Config{Lanes: p.lanes, Proof: proved(s), MaxQueue: l.config.MaxQueue, Logger: l.logger})
	front := &pictured{s, plain{queue}, v.ID, input, l.config.Pictures}
	l.config.Pictures.note(front)
	return front, nil
}

// proved is what is known of the rows of a version that has been warmed up.
func proved(s scheduler) *sched.Proof {
	b := s.Statistics().Batching
	if b.Independent {
		return &sched.Proof{Declared: b.Reason}
	}
	return &sched.Proof{Refuted: b.Reason}
}

// pictureModel is m with the input as pictures of any size, and what is to be done to their channels.
func pictureModel(m *edgewise.Model, input string) *edgewise.Model {
	as := *m
	as.Input = slices.Clone(m.Input)
	at := slices.IndexFunc(as.Input, func(in edgewise.ModelInput) bool { return in.Name == input })
	as.Input[at] = edgewise.ModelInput{Name: input, DataType: edgewise.Uint8, Dims: edgewise.Shape{-1, -1, 3}}
	as.Input = append(as.Input, edgewise.ModelInput{Name: onnx.NormalInput(input), DataType: edgewise.FP32, Dims: edgewise.Shape{onnx.NormalSize}})
	return &as
}

// lentInstance is an instance that its user does not close.
func lentInstance(i edgewise.Instance) edgewise.Instance {
	lent := unclosed{i}
	if allocator, ok := i.(edgewise.Allocator); ok {
		return struct {
			unclosed
			edgewise.Allocator
		}{lent, allocator}
	}
	return lent
}

type unclosed struct{ edgewise.Instance }

func (unclosed) Close() error { return nil }

// Infer answers. A request whose pictures cannot be sent as they are, or that the GPU does not take, is answered as one of tensors.
func (p *pictured) Infer(ctx context.Context, req *edgewise.Request) (*edgewise.Response, error) {
	asBytes, ok := p.request(req)
	if !ok {
		return p.scheduler.Infer(ctx, req)
	}
	response, err := p.pictures.Infer(ctx, asBytes)
	if err != nil && edgewise.KindOf(err) == edgewise.Unsupported {
		p.takers.forget(p)
		return p.scheduler.Infer(ctx, req)
	}
	return response, err
}

// request turns the pictures of a request into tensors of bytes. Those of one request have to be of one size, because they are rows of one
// tensor.
func (p *pictured) request(req *edgewise.Request) (*edgewise.Request, bool) {
	at := slices.IndexFunc(req.Inputs, func(t edgewise.Tensor) bool { return t.Name == p.input && t.Pictures != nil })
	if at < 0 {
		return nil, false
	}
	list := req.Inputs[at].Pictures.List
	first := &list[0]
	pixels := first.Part()
	if len(list) > 1 {
		pixels = slices.Clone(pixels)
	}
	var normals []byte
	for i := range list {
		if list[i].Width != first.Width || list[i].Height != first.Height {
			return nil, false
		}
		if i > 0 {
			pixels = append(pixels, list[i].Part()...)
		}
		for _, values := range [][3]float32{list[i].Mean, list[i].Scale} {
			for _, v := range values {
				normals = binary.LittleEndian.AppendUint32(normals, math.Float32bits(v))
			}
		}
	}
	as := *req
	as.Inputs = slices.Clone(req.Inputs)
	n := int64(len(list))
	as.Inputs[at] = edgewise.Tensor{Name: p.input, Type: edgewise.Uint8, Shape: edgewise.Shape{n, int64(first.Height), int64(first.Width), 3}, Data: pixels}
	as.Inputs = append(as.Inputs, edgewise.Tensor{Name: onnx.NormalInput(p.input), Type: edgewise.FP32, Shape: edgewise.Shape{n, onnx.NormalSize}, Data: normals})
	return &as, true
}

// Statistics adds up both queues.
func (p *pictured) Statistics() edgewise.Statistics {
	st, pictures := p.scheduler.Statistics(), p.pictures.Statistics()
	st.Pictures = pictures.InferenceCount
	st.Add(pictures)
	return st
}

// Resize changes how many batches run at the same time.
func (p *pictured) Resize(lanes int, m *edgewise.Model) {
	p.scheduler.Resize(lanes, m)
	p.pictures.Resize(lanes, m)
}

// Close closes both queues, that of the instance last.
func (p *pictured) Close() error {
	p.takers.forget(p)
	return errors.Join(p.pictures.Close(), p.scheduler.Close())
}
