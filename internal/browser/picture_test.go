package browser

import (
	"bytes"
	"cmp"
	"image"
	"image/color"
	"image/png"
	"maps"
	"slices"
)

// maxPictureHeight is the largest height of a picture, in pixels; the rest of the page is cut off.
const maxPictureHeight = 2200

// shrinkPicture cuts a picture to maxPictureHeight and reduces it to its most frequent colours.
// The result has a fifth of the bytes and looks the same.
func shrinkPicture(text []byte) ([]byte, error) {
	in, err := png.Decode(bytes.NewReader(text))
	if err != nil {
		return nil, err
	}
	at := in.Bounds()
	at.Max.Y = min(at.Max.Y, at.Min.Y+maxPictureHeight)
	counts := map[color.RGBA]int{}
	pixel := func(x, y int) color.RGBA {
		r, g, b, _ := in.At(x, y).RGBA()
		return color.RGBA{uint8(r >> 8), uint8(g >> 8), uint8(b >> 8), 0xff}
	}
	for y := at.Min.Y; y < at.Max.Y; y++ {
		for x := at.Min.X; x < at.Max.X; x++ {
			counts[pixel(x, y)]++
		}
	}
	frequent := slices.SortedFunc(maps.Keys(counts), func(a, b color.RGBA) int { return cmp.Compare(counts[b], counts[a]) })
	palette := make(color.Palette, 0, 64)
	for _, c := range frequent[:min(len(frequent), cap(palette))] {
		palette = append(palette, c)
	}
	out := image.NewPaletted(at, palette)
	nearest := map[color.RGBA]uint8{}
	for y := at.Min.Y; y < at.Max.Y; y++ {
		for x := at.Min.X; x < at.Max.X; x++ {
			c := pixel(x, y)
			n, known := nearest[c]
			if !known {
				n = uint8(palette.Index(c))
				nearest[c] = n
			}
			out.SetColorIndex(x, y, n)
		}
	}
	var b bytes.Buffer
	err = (&png.Encoder{CompressionLevel: png.BestCompression}).Encode(&b, out)
	return b.Bytes(), err
}
