package demo

import (
	"image"
	"image/color"
	"image/draw"
	"testing"
)

func TestDrawingMarksTheFrameAndLeavesThePictureAlone(t *testing.T) {
	picture := white(100, 80)
	text := Text{Lines: []TextLine{{Box: Quad{{20, 20}, {80, 20}, {80, 50}, {20, 50}}}}}
	drawn := text.Draw(picture)
	paper, red := color.RGBA{255, 255, 255, 255}, color.RGBA{R: 220, A: 255}
	for _, p := range []image.Point{{50, 20}, {80, 35}, {50, 50}, {20, 35}, {21, 21}} {
		if got := drawn.RGBAAt(p.X, p.Y); got != red {
			t.Errorf("%v on the frame is %v", p, got)
		}
		if got := picture.RGBAAt(p.X, p.Y); got != paper {
			t.Errorf("%v of the picture became %v", p, got)
		}
	}
	if got := drawn.RGBAAt(50, 35); got != paper {
		t.Errorf("inside the frame it is %v", got)
	}
}

func TestDrawingStaysInThePicture(t *testing.T) {
	picture := white(50, 40)
	far := Face{Low: Point{-1e9, -1e9}, High: Point{1e9, 20}, Nose: Point{10, 10}, Mouth: Point{1e12, -1e12}}
	drawn := Faces{Faces: []Face{far}}.Draw(picture)
	green := color.RGBA{G: 200, A: 255}
	if drawn.RGBAAt(25, 20) != green || drawn.RGBAAt(10, 10) != green {
		t.Error("what lies in the picture is not drawn")
	}
	if drawn.RGBAAt(25, 39) == green || drawn.RGBAAt(49, 0) == green {
		t.Error("what lies outside of the picture is drawn at its edge")
	}
}

func white(width, height int) *image.RGBA {
	picture := image.NewRGBA(image.Rect(0, 0, width, height))
	draw.Draw(picture, picture.Rect, image.White, image.Point{}, draw.Src)
	return picture
}
