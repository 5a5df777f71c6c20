package deploy

import (
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
)

// The rules load, in a network namespace of their own, and load again.
func TestFirewallLoads(t *testing.T) {
	nft, err := exec.LookPath("nft")
	if err != nil || os.Getuid() != 0 {
		t.Skip("no nft here, or not root: the rules were not loaded")
	}
	cmd := exec.Command("sh", "-c", `"$0" -f nftables.conf && "$0" -f nftables.conf && "$0" list table inet ticketing`, nft)
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET}
	out, err := cmd.CombinedOutput()
	if err != nil && strings.Contains(err.Error(), "operation not permitted") {
		t.Skip("no network namespaces here: the rules were not loaded")
	}
	if err != nil || strings.Count(string(out), "tcp dport 7400") != 4 || strings.Count(string(out), "tcp dport 7402 drop") != 2 {
		t.Errorf("%v\n%s", err, out)
	}
}
