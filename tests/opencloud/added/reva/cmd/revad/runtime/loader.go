// Package runtime, with the drivers that gateway and auth-machine use. Upstream's own loader takes all there are.
package runtime

import (
	_ "github.com/opencloud-eu/reva/v2/internal/grpc/interceptors/loader"
	_ "github.com/opencloud-eu/reva/v2/internal/grpc/services/authprovider"
	_ "github.com/opencloud-eu/reva/v2/internal/grpc/services/authregistry"
	_ "github.com/opencloud-eu/reva/v2/internal/grpc/services/gateway"
	_ "github.com/opencloud-eu/reva/v2/internal/grpc/services/storageregistry"
	_ "github.com/opencloud-eu/reva/v2/pkg/auth/manager/machine"
	_ "github.com/opencloud-eu/reva/v2/pkg/auth/registry/static"
	_ "github.com/opencloud-eu/reva/v2/pkg/storage/registry/spaces"
	_ "github.com/opencloud-eu/reva/v2/pkg/token/manager/jwt"
)
