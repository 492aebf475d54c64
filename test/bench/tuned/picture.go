package tuned

import (
	"fmt"
	"html"
	"math"
	"strings"
)

// curve is a line of a chart.
type curve struct {
	name, class string
	points      [][2]float64
}

// chart has a linear axis across and a logarithmic one up.
type chart struct {
	across, up string
	curves     []curve
	dots       [][2]float64
}

// The sizes of a picture, in pixels.
const (
	chartWidth, chartHeight = 300, 190
	marginLeft, marginTop   = 52, 34
	chartGap                = 70
	legendLine              = 15
)

// style is readable on light and on dark pages.
const style = `<style>
text{font:11px system-ui,sans-serif;fill:#333}.t{font-weight:600}.g{stroke:#8886;stroke-width:1}
.a{stroke:#666;fill:#666}.b{stroke:#0a7d5a;fill:#0a7d5a}.c{stroke:#b3400a;fill:#b3400a}
path{fill:none!important;stroke-width:2}.d{fill:#0a7d5a;opacity:.6}
@media (prefers-color-scheme:dark){text{fill:#ddd}.a{stroke:#aaa;fill:#aaa}.b{stroke:#3ecf9b;fill:#3ecf9b}
.c{stroke:#ff9a5c;fill:#ff9a5c}.d{fill:#3ecf9b}}
</style>
`

// draw makes an SVG of two charts side by side with a legend below.
func draw(title string, left, right chart) []byte {
	var b strings.Builder
	width := 2*(marginLeft+chartWidth) + chartGap
	legend := marginTop + chartHeight + 50
	height := legend + legendLine*len(left.curves)
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" role="img">`+"\n%s", width, height, style)
	fmt.Fprintf(&b, "<title>%s</title>\n<text class=\"t\" x=\"%d\" y=\"16\">%s</text>\n", html.EscapeString(title), marginLeft,
		html.EscapeString(title))
	left.draw(&b, marginLeft)
	right.draw(&b, 2*marginLeft+chartWidth+chartGap-20)
	for i, c := range left.curves {
		y := legend + i*legendLine
		fmt.Fprintf(&b, "<circle class=\"%s\" cx=\"%d\" cy=\"%d\" r=\"4\"/><text x=\"%d\" y=\"%d\">%s</text>\n", c.class, marginLeft, y-4,
			marginLeft+10, y, html.EscapeString(c.name))
	}
	b.WriteString("</svg>\n")
	return []byte(b.String())
}

// scale places values of a chart.
type scale struct{ right, low, high float64 }

func (c *chart) scale() scale {
	s := scale{0, math.Inf(1), 0}
	see := func(p [2]float64) {
		s.right, s.low, s.high = max(s.right, p[0]), min(s.low, p[1]), max(s.high, p[1])
	}
	for _, one := range c.curves {
		for _, p := range one.points {
			see(p)
		}
	}
	for _, p := range c.dots {
		see(p)
	}
	if s.high == 0 { // nothing was answered
		return scale{1, 1, 10}
	}
	s.low = max(s.low, 1e-3)
	return scale{s.right * 1.05, s.low / 1.3, max(s.high, s.low) * 1.3}
}

func (s scale) at(p [2]float64, x int) (float64, float64) {
	part := math.Log(max(p[1], s.low)/s.low) / math.Log(s.high/s.low)
	return float64(x) + p[0]/s.right*chartWidth, marginTop + chartHeight*(1-part)
}

// gridLine is a line of a chart's grid.
const gridLine = `<line class="g" x1="%.1f" x2="%.1f" y1="%.1f" y2="%.1f"/>`

// draw writes a chart whose left end is at x.
func (c *chart) draw(b *strings.Builder, x int) {
	s := c.scale()
	bottom := marginTop + chartHeight
	for i := range 5 {
		v := s.right * float64(i) / 4
		at := float64(x) + float64(chartWidth*i)/4
		fmt.Fprintf(b, gridLine+`<text x="%.1f" y="%d" text-anchor="middle">%s</text>`+"\n",
			at, at, float64(marginTop), float64(bottom), at, bottom+14, short(v))
		up := s.low * math.Pow(s.high/s.low, float64(i)/4)
		y := float64(bottom) - float64(chartHeight*i)/4
		fmt.Fprintf(b, gridLine+`<text x="%d" y="%.1f" text-anchor="end">%s</text>`+"\n",
			float64(x), float64(x+chartWidth), y, y, x-5, y+4, short(up))
	}
	fmt.Fprintf(b, "<text x=\"%d\" y=\"%d\">%s</text><text x=\"%d\" y=\"%d\">%s</text>\n", x, bottom+30, html.EscapeString(c.across), x,
		marginTop-5, html.EscapeString(c.up))
	for _, d := range c.dots {
		cx, cy := s.at(d, x)
		fmt.Fprintf(b, "<circle class=\"d\" cx=\"%.1f\" cy=\"%.1f\" r=\"3\"/>\n", cx, cy)
	}
	for _, one := range c.curves {
		path := ""
		for i, p := range one.points {
			cx, cy := s.at(p, x)
			path += fmt.Sprintf("%s%.1f %.1f", map[bool]string{true: "M", false: "L"}[i == 0], cx, cy)
			fmt.Fprintf(b, "<circle class=\"%s\" cx=\"%.1f\" cy=\"%.1f\" r=\"2.5\"/>\n", one.class, cx, cy)
		}
		if path != "" {
			fmt.Fprintf(b, "<path class=\"%s\" d=\"%s\"/>\n", one.class, path)
		}
	}
}
