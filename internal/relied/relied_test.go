package relied_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/dlt"
	"github.com/dltbatch/dltbatch/internal/relied"
	"github.com/dltbatch/dltbatch/queuer"
)

// settingsWithQuiet returns settings with a ResendQuiet of some seconds.
func settingsWithQuiet(seconds int) relied.Settings {
	return relied.SettingsOf("s", dlt.Traits{ResendQuiet: time.Duration(seconds) * time.Second}, time.Minute, queuer.Serial())
}

func hasSameQuiet(a, b relied.Settings) bool { return a.ResendQuiet == b.ResendQuiet }

// A record keeps the eight oldest former settings, and still disagrees if there were more.
func TestReplace(t *testing.T) {
	r := relied.Record{Settings: settingsWithQuiet(0), Varies: true, Agreed: &batch.By{Actor: "ada"}}
	for i := range 8 {
		r = r.Replace(settingsWithQuiet(i + 1))
		assert.Nil(t, r.Agreed)
		assert.Len(t, r.Further, i)
		assert.False(t, r.More)
	}
	assert.True(t, r.Varies)
	back := r.Replace(settingsWithQuiet(3))
	assert.Len(t, back.Further, 7, "3 is no other one, and 8 is")
	assert.False(t, back.More)
	r = r.Replace(settingsWithQuiet(9))
	assert.Equal(t, settingsWithQuiet(0), *r.Other)
	assert.Equal(t, settingsWithQuiet(7), r.Further[6])
	assert.Len(t, r.Further, 7)
	assert.True(t, r.More)

	text, err := r.Text()
	require.NoError(t, err)
	read, err := relied.Read(text)
	require.NoError(t, err)
	assert.Equal(t, r, read)
	all := func(_, _ relied.Settings) bool { return true }
	assert.True(t, read.Disagree(all), "nobody knows the others")
	agreed := read.WithAgreement(batch.By{Actor: "ada"})
	assert.Equal(t, relied.Record{Settings: settingsWithQuiet(9), Varies: true, Agreed: &batch.By{Actor: "ada"}}, agreed)
	assert.False(t, agreed.Disagree(hasSameQuiet))
}

// A record of an earlier version, which kept one former setting, can be read.
func TestOneFormerSettingIsRead(t *testing.T) {
	former, err := json.Marshal(settingsWithQuiet(1))
	require.NoError(t, err)
	now, err := json.Marshal(settingsWithQuiet(2))
	require.NoError(t, err)
	r, err := relied.Read(string(now[:len(now)-1]) + `,"other":` + string(former) + "}")
	require.NoError(t, err)
	assert.True(t, r.Disagree(hasSameQuiet))
	late := settingsWithQuiet(2)
	late.ClaimTTL = "7m0s"
	r = r.Replace(late)
	assert.Equal(t, settingsWithQuiet(1), *r.Other)
	assert.Equal(t, []relied.Settings{settingsWithQuiet(2)}, r.Further)
	assert.True(t, r.Disagree(hasSameQuiet))
}
