package client_test

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// fencingSQL are the statements of docs/client.md with the parameters filled
// in: what is documented is what is tested.
type fencingSQL struct{ once, check, update string }

func readFencingSQL(t *testing.T) fencingSQL {
	t.Helper()
	doc, err := os.ReadFile(filepath.Join("..", "docs", "client.md"))
	if err != nil {
		t.Fatal(err)
	}
	blocks := regexp.MustCompile("(?s)```sql\n(.*?)```").FindAllSubmatch(doc, -1)
	if len(blocks) != 3 {
		t.Fatalf("docs/client.md has %d blocks of SQL, want 3", len(blocks))
	}
	return fencingSQL{once: string(blocks[0][1]), check: string(blocks[1][1]), update: string(blocks[2][1])}
}

func fill(statement, token string) string {
	return strings.NewReplacer(":key", "'account-1'", ":token", token, ":amount", "10", ":id", "1").Replace(statement)
}

const accountTable = `
CREATE TABLE account (id integer PRIMARY KEY, balance bigint NOT NULL, fence bigint NOT NULL DEFAULT 0);
INSERT INTO account (id, balance) VALUES (1, 100);
`

// fencingCases is each check by token, and whether the work may go on.
var fencingCases = []struct {
	token string
	ok    bool
}{
	{"5", true},
	{"5", true},  // several transactions of one ticket
	{"4", false}, // an older holder
	{"9", true},  // a newer one; tokens have gaps
	{"5", false},
	{"8", false},
	{"9223372036854775807", true},
	{"9223372036854775806", false},
}

// TestClient_4_FencingSQL runs the documented statements in SQLite and
// PostgreSQL, where these are installed.
func TestClient_4_FencingSQL(t *testing.T) {
	docs := readFencingSQL(t)
	t.Run("sqlite", func(t *testing.T) {
		sqlite, err := exec.LookPath("sqlite3")
		if err != nil {
			t.Skip("sqlite3 is not installed")
		}
		file := filepath.Join(t.TempDir(), "db")
		testFencing(t, docs, "SELECT changes();", func(sql string) string {
			return runSQL(t, exec.Command(sqlite, "-batch", "-bail", file), sql)
		})
	})
	t.Run("postgres", func(t *testing.T) {
		pg := startPostgres(t)
		testFencing(t, docs, "", func(sql string) string { return runSQL(t, pg.psql(), sql) })
	})
}

// testFencing goes through the cases. changes, if not empty, asks how many rows
// the last statement changed; psql says it by itself.
func testFencing(t *testing.T, docs fencingSQL, changes string, run func(sql string) string) {
	run(docs.once + accountTable)
	balance := 100
	for _, tc := range fencingCases {
		got := strings.Fields(run("BEGIN;" + fill(docs.check, tc.token) + "COMMIT;"))
		row := len(got) > 0 && got[0] == tc.token || len(got) > 1 && got[1] == tc.token
		if row != tc.ok {
			t.Errorf("check of token %s: %q, want a row: %v", tc.token, got, tc.ok)
		}
		if tc.ok {
			balance -= 10
		}
		out := run(fill(docs.update, tc.token) + changes)
		if updated := strings.Contains(out, "1"); updated != tc.ok {
			t.Errorf("update under token %s: %q, want a row: %v", tc.token, out, tc.ok)
		}
	}
	if out := run("SELECT balance = " + itoa(balance) + " FROM account;"); !strings.Contains(out, "1") && !strings.Contains(out, "t") {
		t.Errorf("the balance is not %d: %s", balance, out)
	}
}

func runSQL(t *testing.T, cmd *exec.Cmd, sql string) string {
	t.Helper()
	var out bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(sql), &out, &out
	if err := cmd.Run(); err != nil {
		t.Fatalf("%v: %v\n%s\n%s", cmd.Args, err, sql, &out)
	}
	return out.String()
}
