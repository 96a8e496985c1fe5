# Sourced by the job scripts: what Open MPI needs on a laptop, in a container, or as root.
# On a cluster, use mpirun or srun as your site does (README, "Running on a cluster").
if [ "$(id -u)" = 0 ]; then
  export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
fi
# More ranks than cores are fine; ranks are not bound to one core, and waiting ranks yield.
# The first name of each pair is Open MPI 4's, the second Open MPI 5's.
export OMPI_MCA_rmaps_base_oversubscribe=1 PRTE_MCA_rmaps_default_mapping_policy=:oversubscribe
export OMPI_MCA_hwloc_base_binding_policy=none PRTE_MCA_hwloc_default_binding_policy=none
export OMPI_MCA_mpi_yield_when_idle=1
# The program sets its threads from runtime.threads; this is for libraries that start earlier.
export OMP_NUM_THREADS="${OMP_NUM_THREADS:-1}"
