// The services of OpenCloud that search for people, in one process: gateway, auth-machine and graph, by upstream's own commands.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/opencloud-eu/opencloud/pkg/shared"
	authmachine "github.com/opencloud-eu/opencloud/services/auth-machine/pkg/command"
	authmachineconfig "github.com/opencloud-eu/opencloud/services/auth-machine/pkg/config/defaults"
	gateway "github.com/opencloud-eu/opencloud/services/gateway/pkg/command"
	gatewayconfig "github.com/opencloud-eu/opencloud/services/gateway/pkg/config/defaults"
	graph "github.com/opencloud-eu/opencloud/services/graph/pkg/command"
	graphconfig "github.com/opencloud-eu/opencloud/services/graph/pkg/config/defaults"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	// What upstream's own `opencloud server` gives to all of its services.
	common := &shared.Commons{GRPCClientTLS: &shared.GRPCClientTLS{}, GRPCServiceTLS: &shared.GRPCServiceTLS{}, Reva: shared.DefaultRevaConfig()}
	gatewaySettings, machineSettings, graphSettings := gatewayconfig.DefaultConfig(), authmachineconfig.DefaultConfig(), graphconfig.DefaultConfig()
	gatewaySettings.Context, machineSettings.Context, graphSettings.Context = ctx, ctx, ctx
	gatewaySettings.Commons, machineSettings.Commons, graphSettings.Commons = common, common, common

	// Their command lines are this one's.
	os.Args = []string{os.Args[0], "server"}
	ended := make(chan error)
	start := func(name string, run func() error) {
		go func() { ended <- fmt.Errorf("%s ended: %v", name, run()) }()
	}
	start("gateway", func() error { return gateway.Execute(gatewaySettings) })
	start("auth-machine", func() error { return authmachine.Execute(machineSettings) })
	start("graph", func() error { return graph.Execute(graphSettings) })
	if err := <-ended; ctx.Err() == nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
