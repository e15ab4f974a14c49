package console

import (
	"math"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Texts stand out from what is behind them as WCAG AA wants it, by day and by night.
func TestContrast(t *testing.T) {
	css, err := files.ReadFile("page/style.css")
	require.NoError(t, err)
	day, night, found := strings.Cut(string(css), "@media (prefers-color-scheme: dark)")
	require.True(t, found)
	for name, part := range map[string]string{"day": day, "night": night} {
		colours := map[string]float64{}
		for _, m := range regexp.MustCompile(`--([a-z-]+): #([0-9a-f]{6})`).FindAllStringSubmatch(part, -1) {
			colours[m[1]] = luminance(t, m[2])
		}
		for _, c := range []struct {
			front, back string
			least       float64
		}{
			{"text", "back", 4.5}, {"text", "card", 4.5}, {"quiet", "back", 4.5}, {"quiet", "card", 4.5}, {"quiet", "alarm-back", 4.5}, {"quiet", "done-back", 4.5},
			{"link", "back", 4.5}, {"link", "card", 4.5}, {"link", "alarm-back", 4.5}, {"alarm", "back", 4.5}, {"alarm", "card", 4.5}, {"alarm", "alarm-back", 4.5},
			{"done", "done-back", 4.5}, {"on-button", "button", 4.5}, {"line", "back", 3},
		} {
			front, has := colours[c.front]
			require.True(t, has, "%s: %s", name, c.front)
			back, has := colours[c.back]
			require.True(t, has, "%s: %s", name, c.back)
			ratio := (max(front, back) + 0.05) / (min(front, back) + 0.05)
			assert.GreaterOrEqual(t, ratio, c.least, "%s: %s on %s", name, c.front, c.back)
		}
	}
}

// luminance is the relative luminance of a colour in WCAG's sense.
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
