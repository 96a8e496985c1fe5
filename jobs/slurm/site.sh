# Sourced by the batch scripts of this folder on the compute node: what differs from site to site.
# Everything here can also be set in the environment of sbatch, which wins.
#
# Partition, account, QOS and time are options of sbatch, or its variables SBATCH_PARTITION,
# SBATCH_ACCOUNT, SBATCH_QOS and SBATCH_TIMELIMIT; the scripts name none.

# Modules that the program was built with, for example "gcc/12 openmpi/4.1 hdf5/1.14".
APO_MODULES=${APO_MODULES:-}

# How ranks are started: one per task that sbatch was asked for.
#   srun --mpi=pmix   where SLURM has the PMIx plugin (srun --mpi=list); stops and dead ranks are
#                     noticed fastest. Other MPIs: srun --mpi=pmi2, srun --mpi=cray_shasta
#   mpirun            where it has not, with an Open MPI that knows SLURM's allocations
# Plain srun and srun --mpi=pmi2 do not start an Open MPI program as one world of ranks. mpirun
# gives the ranks of a job that is cancelled, preempted or requeued two seconds, then the checkpoint
# before counts; the warning before a time limit is passed on in full by both.
APO_LAUNCH=${APO_LAUNCH:-srun --mpi=pmix}

# What a job does that stopped at a checkpoint (exit code 75) and is not done:
#   requeue   scontrol requeue: the same job id goes back into the queue
#   follow    submits a follow-up job with the same resources, for sites that forbid requeues or do
#             not allow scontrol on compute nodes. Jobs that wait for this one (afterok) then wait
#             for the new one. Options of sbatch other than nodes, tasks, CPUs and GPUs per node,
#             time, partition, account and QOS go into APO_FOLLOW: "--mem=0 --constraint=a100"
#   exit      ends with 75 and leaves it to the site (RequeueExit=75 in slurm.conf)
APO_AGAIN=${APO_AGAIN:-requeue}

# A job that comes back so many times without one more round on record gives up with code 70.
APO_MAX_STALLS=${APO_MAX_STALLS:-3}

# SLURM 22.05 and later do not hand --cpus-per-task of sbatch to srun.
if [ -n "${SLURM_CPUS_PER_TASK:-}" ]; then
  export SRUN_CPUS_PER_TASK=$SLURM_CPUS_PER_TASK
fi
