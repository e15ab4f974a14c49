package console

import (
	"math"
	"regexp"
	"strconv"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// The contrast of each text with its background meets WCAG AA, in the light and in the dark theme.
func TestContrast(t *testing.T) {
	css, err := pageFiles.ReadFile("page/style.css")
	require.NoError(t, err)
	for at, name := range []string{"day", "night"} {
		colours := map[string]float64{}
		for _, m := range regexp.MustCompile(`--([a-z-]+): light-dark\(#([0-9a-f]{6}), #([0-9a-f]{6})\)`).FindAllStringSubmatch(string(css), -1) {
			colours[m[1]] = luminance(t, m[2+at])
		}
		type pair struct {
			foreground, background string
			minRatio               float64
		}
		pairs := []pair{{"on-button", "button", 4.5}, {"edge", "back", 3}, {"edge", "card", 3}, {"on-warn", "warn-band", 4.5}}
		for _, background := range []string{"back", "card", "sunk", "ok-back", "run-back", "warn-back", "bad-back"} {
			for _, foreground := range []string{"text", "quiet", "link"} {
				pairs = append(pairs, pair{foreground, background, 4.5})
			}
		}
		for _, tone := range []string{"ok", "run", "wait", "warn", "bad"} {
			pairs = append(pairs, pair{tone, tone + "-back", 4.5}, pair{tone, "card", 4.5}, pair{tone, "back", 4.5})
		}
		for _, band := range []string{"ok-band", "run-band", "bad-band"} {
			pairs = append(pairs, pair{"on-band", band, 4.5})
		}
		for _, c := range pairs {
			foreground, has := colours[c.foreground]
			require.True(t, has, "%s: %s", name, c.foreground)
			background, has := colours[c.background]
			require.True(t, has, "%s: %s", name, c.background)
			ratio := (max(foreground, background) + 0.05) / (min(foreground, background) + 0.05)
			assert.GreaterOrEqual(t, ratio, c.minRatio, "%s: %s on %s", name, c.foreground, c.background)
		}
	}
}

// luminance returns the relative luminance of a colour as WCAG defines it.
func luminance(t *testing.T, hex string) (sum float64) {
	for i, weight := range []float64{0.2126, 0.7152, 0.0722} {
		n, err := strconv.ParseUint(hex[2*i:2*i+2], 16, 8)
		require.NoError(t, err)
		c := float64(n) / 255
		if c <= 0.03928 {
			c /= 12.92
		} else {
			c = math.Pow((c+0.055)/1.055, 2.4)
		}
		sum += weight * c
	}
	return sum
}
